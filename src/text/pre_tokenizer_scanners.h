// Hand-written scanners for the split patterns of published byte-level tokenizers. Each finds the end of the
// piece that begins at a position, reads a bounded number of runs to do so and never backtracks through text,
// so that splitting is linear. The pattern stands above each scanner; "isolated" splitting is meant, as in
// the Hugging Face tokenizers library: what no alternative matches becomes a piece of its own between the
// matches around it.
//
// The scanners are templates over the text so that a test can count the characters they read. A Text has
// `std::size_t size() const` and `Character At(std::size_t) const`; At(size()) has no classes and no length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "text/character_class.h"
#include "text/utf8.h"

namespace skipjack::pretokenize {

struct Character {
  char32_t value = 0;
  std::uint16_t classes = 0;
  std::uint32_t length = 0;  // in bytes
};

// Well-formed UTF-8.
class PlainText {
 public:
  explicit PlainText(std::string_view text) : text_(text) {}

  std::size_t size() const { return text_.size(); }
  Character At(std::size_t position) const {
    if (position >= text_.size()) return {};
    const unsigned char byte = static_cast<unsigned char>(text_[position]);
    if (byte < 0x80) return {byte, character_class_internal::kAsciiTable[byte], 1};
    const CodePoint c = DecodeUtf8(text_.data() + position);
    return {c.value, NonAsciiClasses(c.value), c.length};
  }

 private:
  std::string_view text_;
};

// [^\s\p{L}\p{N}]
inline constexpr std::uint16_t kNotSpaceLetterNumber = kMark | kPunctuation | kSymbol | kRest;

inline bool Has(const Character& c, std::uint16_t classes) {
  return (c.classes & classes) != 0;
}

template <class Text>
std::size_t SkipRun(const Text& text, std::size_t position, std::uint16_t classes) {
  for (Character c = text.At(position); Has(c, classes); c = text.At(position)) position += c.length;
  return position;
}

template <class Text, class Predicate>
std::size_t SkipWhile(const Text& text, std::size_t position, Predicate predicate) {
  for (Character c = text.At(position); c.length != 0 && predicate(c.value); c = text.At(position)) {
    position += c.length;
  }
  return position;
}

// \p{N}{1,count}
template <class Text>
std::size_t SkipDigits(const Text& text, std::size_t position, int count) {
  for (Character c = text.At(position); count > 0 && Has(c, kNumber); --count, c = text.At(position)) {
    position += c.length;
  }
  return position;
}

// 's|'t|'re|'ve|'m|'ll|'d at `position`; returns its end, or `position`. Ignoring case follows Unicode, where
// the long s (U+017F) folds to s.
template <class Text>
std::size_t SkipContraction(const Text& text, std::size_t position, bool ignore_case) {
  if (text.At(position).value != U'\'') return position;
  const auto letter = [&](std::size_t at) -> char32_t {
    const char32_t value = text.At(at).value;
    if (!ignore_case) return value;
    if (value == 0x17F) return U's';
    return value >= U'A' && value <= U'Z' ? value + 32 : value;
  };
  const std::size_t second = position + 1 + text.At(position + 1).length;
  switch (letter(position + 1)) {
    case U's':
    case U't':
    case U'm':
    case U'd':
      return second;
    case U'r':
    case U'v':
      return letter(second) == U'e' ? second + 1 : position;
    case U'l':
      return letter(second) == U'l' ? second + 1 : position;
    default:
      return position;
  }
}

// \s*[\r\n]+|\s+(?!\S)|\s+ with `line_breaks_first`, else \s+(?!\S)|\s+. A run of white space goes up to its
// last line break; without one it leaves its last character to the word that follows.
template <class Text>
std::size_t SkipSpaces(const Text& text, std::size_t begin, bool line_breaks_first) {
  std::size_t position = begin, last = begin, after_break = begin;
  for (Character c = text.At(position); Has(c, kSpace); c = text.At(position)) {
    last = position;
    position += c.length;
    if (Has(c, kLineBreak)) after_break = position;
  }
  if (line_breaks_first && after_break > begin) return after_break;
  return position == text.size() || last == begin ? position : last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct Gpt2Words {
  template <class Text>
  static std::size_t Next(const Text& text, std::size_t begin) {
    const std::size_t contraction = SkipContraction(text, begin, /*ignore_case=*/false);
    if (contraction > begin) return contraction;
    Character c = text.At(begin);
    std::size_t position = begin;
    if (c.value == U' ') {
      const Character next = text.At(begin + 1);
      if (c.length != 0 && next.length != 0 && !Has(next, kSpace)) {
        c = next;
        position = begin + 1;
      }
    }
    for (const std::uint16_t run : {kLetter, std::uint16_t{kNumber}, kNotSpaceLetterNumber}) {
      if (Has(c, run)) return SkipRun(text, position + c.length, run);
    }
    return SkipSpaces(text, begin, /*line_breaks_first=*/false);
  }
};

// What the patterns that descend from OpenAI's cl100k and o200k have different from each other.
struct WordRules {
  enum class Contractions : std::uint8_t { kNone, kOwnPiece, kEndsWord };
  enum class Tail : std::uint8_t { kNone, kLineBreaks, kLineBreaksAndSlashes };

  std::uint16_t word = kLetter;
  bool split_at_case = false;  // a word is capitals, then small letters (o200k)
  Contractions contractions = Contractions::kOwnPiece;
  int max_digits = 3;
  Tail tail = Tail::kLineBreaks;
};

// [Lu Lt Lm Lo M]*[Ll Lm Lo M]+ or else [Lu Lt Lm Lo M]+[Ll Lm Lo M]*, from `begin`; returns `begin` for no
// match. Capitals and caseless characters first, as many as there are; if no small letter follows, the
// pattern gives back characters until one of them can be its small part, which only a caseless one can.
struct CasedWord {
  static constexpr std::uint16_t kCaseless = kOtherLetter | kMark;
  static constexpr std::uint16_t kUpperPart = kUpper | kCaseless;
  static constexpr std::uint16_t kLowerPart = kLower | kCaseless;

  std::size_t lower_end = 0;  // end of the first alternative, or `begin`
  std::size_t upper_end = 0;  // end of the second alternative, or `begin`

  template <class Text>
  static CasedWord Match(const Text& text, std::size_t begin) {
    std::size_t position = begin, after_caseless = begin;
    Character c = text.At(position);
    for (; Has(c, kUpperPart); c = text.At(position)) {
      position += c.length;
      if (Has(c, kCaseless)) after_caseless = position;
    }
    if (Has(c, kLower)) {
      const std::size_t end = SkipRun(text, position, kLowerPart);
      return {end, end};
    }
    return {after_caseless, position};
  }
};

template <WordRules kRules>
struct Words {
  template <class Text>
  static std::size_t Next(const Text& text, std::size_t begin) {
    using Contractions = WordRules::Contractions;
    if constexpr (kRules.contractions == Contractions::kOwnPiece) {
      const std::size_t contraction = SkipContraction(text, begin, /*ignore_case=*/true);
      if (contraction > begin) return contraction;
    }
    const Character c = text.At(begin);
    std::size_t end = SkipWord(text, begin, c);
    if (end > begin) {
      if constexpr (kRules.contractions == Contractions::kEndsWord) end = SkipContraction(text, end, true);
      return end;
    }
    if (Has(c, kNumber)) return SkipDigits(text, begin, kRules.max_digits);
    end = SkipOther(text, begin, c);
    return end > begin ? end : SkipSpaces(text, begin, /*line_breaks_first=*/true);
  }

 private:
  // [^\r\n\p{L}\p{N}]? and a word.
  template <class Text>
  static std::size_t SkipWord(const Text& text, std::size_t begin, const Character& c) {
    const std::size_t second = begin + c.length;
    const bool may_lead = !Has(c, kLineBreak | kLetter | kNumber);
    if constexpr (kRules.split_at_case) {
      const CasedWord led = may_lead ? CasedWord::Match(text, second) : CasedWord{second, second};
      if (led.lower_end > second) return led.lower_end;
      const CasedWord plain = CasedWord::Match(text, begin);
      if (plain.lower_end > begin) return plain.lower_end;
      return led.upper_end > second ? led.upper_end : plain.upper_end;
    } else {
      if (Has(c, kRules.word)) return SkipRun(text, second, kRules.word);
      return may_lead && Has(text.At(second), kRules.word) ? SkipRun(text, second, kRules.word) : begin;
    }
  }

  //  ?[^\s\p{L}\p{N}]+ and its tail.
  template <class Text>
  static std::size_t SkipOther(const Text& text, std::size_t begin, const Character& c) {
    constexpr std::uint16_t kOther =
        static_cast<std::uint16_t>(kNotSpaceLetterNumber & ~(kRules.split_at_case ? 0 : kRules.word));
    const std::size_t start = c.value == U' ' ? begin + 1 : begin;
    std::size_t end = SkipRun(text, start, kOther);
    if (end == start) return begin;
    if constexpr (kRules.tail == WordRules::Tail::kLineBreaks) end = SkipRun(text, end, kLineBreak);
    if constexpr (kRules.tail == WordRules::Tail::kLineBreaksAndSlashes) {
      end = SkipWhile(text, end, [](char32_t v) { return v == U'\r' || v == U'\n' || v == U'/'; });
    }
    return end;
  }
};

// Splits by a pattern that need not match everywhere. Matcher::Match returns the end of a match or its
// argument; it must fail after a bounded number of characters.
template <class Matcher>
struct Matches {
  template <class Text>
  static std::size_t Next(const Text& text, std::size_t begin) {
    std::size_t end = Matcher::Match(text, begin);
    if (end > begin) return end;
    do {
      begin += text.At(begin).length;
      end = Matcher::Match(text, begin);
    } while (begin < text.size() && end == begin);
    return begin;
  }
};

// \p{N}{1,count}
template <int kCount>
struct Digits {
  template <class Text>
  static std::size_t Match(const Text& text, std::size_t begin) {
    return SkipDigits(text, begin, kCount);
  }
};

// [0-9][0-9][0-9]
struct AsciiDigitTriples {
  template <class Text>
  static std::size_t Match(const Text& text, std::size_t begin) {
    for (std::size_t i = 0; i < 3; ++i) {
      const char32_t value = text.At(begin + i).value;
      if (value < U'0' || value > U'9') return begin;
    }
    return begin + 3;
  }
};

// [\r\n]
struct LineBreaks {
  template <class Text>
  static std::size_t Match(const Text& text, std::size_t begin) {
    return Has(text.At(begin), kLineBreak) ? begin + 1 : begin;
  }
};

// [classes]+, or \s?[classes]+
template <std::uint16_t kClasses, bool kLeadingSpace>
struct ClassRuns {
  template <class Text>
  static std::size_t Match(const Text& text, std::size_t begin) {
    const Character c = text.At(begin);
    const std::size_t start = kLeadingSpace && Has(c, kSpace) ? begin + c.length : begin;
    const std::size_t end = SkipRun(text, start, kClasses);
    return end > start ? end : begin;
  }
};

// [\p{P}$+<=>^~|]+, with the grave accent too where a pattern has it.
template <bool kGraveAccent>
struct PunctuationRuns {
  template <class Text>
  static std::size_t Match(const Text& text, std::size_t begin) {
    Character c = text.At(begin);
    for (; Has(c, kPunctuation) || IsAsciiSymbol(c); c = text.At(begin)) begin += c.length;
    return begin;
  }

 private:
  static bool IsAsciiSymbol(const Character& c) {
    return c.value < 0x80 && Has(c, kSymbol) && (kGraveAccent || c.value != U'`');
  }
};

// Sorted, not overlapping; both ends belong to it.
struct CodePointRange {
  char32_t first, last;
};

inline bool Contains(std::span<const CodePointRange> ranges, char32_t value) {
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), value,
                       [](char32_t v, const CodePointRange& range) { return v < range.first; });
  return after != ranges.begin() && value <= std::prev(after)->last;
}

// [ranges]+, or \s?[ranges]+; a space may itself lie in the ranges.
template <const auto& kRanges, bool kLeadingSpace>
struct RangeRuns {
  template <class Text>
  static std::size_t Match(const Text& text, std::size_t begin) {
    const auto in_ranges = [](char32_t v) { return Contains(kRanges, v); };
    const Character c = text.At(begin);
    if (kLeadingSpace && Has(c, kSpace)) {
      const std::size_t start = begin + c.length;
      const std::size_t end = SkipWhile(text, start, in_ranges);
      if (end > start) return end;
    }
    return SkipWhile(text, begin, in_ranges);
  }
};

// \s+$ (in text without line breaks, which an earlier split took out)
struct TrailingSpaces {
  template <class Text>
  static std::size_t Next(const Text& text, std::size_t begin) {
    std::size_t after_last_word = begin;
    for (std::size_t position = begin; position < text.size();) {
      const Character c = text.At(position);
      position += c.length;
      if (!Has(c, kSpace)) after_last_word = position;
    }
    return after_last_word > begin ? after_last_word : text.size();
  }
};

// DeepSeek-V3's last split: [!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*| \s*[\r\n]+|\s+(?!\S)|\s+
struct DeepSeekV3Words {
  template <class Text>
  static std::size_t Match(const Text& text, std::size_t begin) {
    const Character c = text.At(begin);
    const std::size_t second = begin + c.length;
    if (c.value < 0x80 && Has(c, kPunctuation | kSymbol)) {
      const std::size_t end =
          SkipWhile(text, second, [](char32_t v) { return v < 0x80 && IsAsciiLetter(v); });
      if (end > second) return end;
    }
    if (Has(c, kLetter | kMark)) return SkipRun(text, second, kLetter | kMark);
    if (c.length != 0 && !Has(c, kLineBreak | kPunctuation | kSymbol) &&
        Has(text.At(second), kLetter | kMark)) {
      return SkipRun(text, second, kLetter | kMark);
    }
    const std::size_t start = c.value == U' ' ? second : begin;
    const std::size_t end = SkipRun(text, start, kPunctuation | kSymbol);
    if (end > start) return SkipRun(text, end, kLineBreak);
    return Has(c, kSpace) ? SkipSpaces(text, begin, /*line_breaks_first=*/true) : begin;
  }

 private:
  static bool IsAsciiLetter(char32_t v) { return (v >= U'a' && v <= U'z') || (v >= U'A' && v <= U'Z'); }
};

}  // namespace skipjack::pretokenize
