// What a pre-tokenizer's pattern can ask of a character: a set of bits per code point.
#pragma once

#include <array>
#include <cstdint>

namespace skipjack {

// The general categories that the patterns of published tokenizers tell apart. Every character has at least
// one bit.
enum CharacterClass : std::uint16_t {
  kUpper = 1 << 0,        // Lu, Lt
  kLower = 1 << 1,        // Ll
  kOtherLetter = 1 << 2,  // Lm, Lo
  kMark = 1 << 3,         // Mn, Mc, Me
  kNumber = 1 << 4,       // Nd, Nl, No
  kPunctuation = 1 << 5,  // P*
  kSymbol = 1 << 6,       // S*
  kSpace = 1 << 7,        // the property White_Space, which "\s" means
  kLineBreak = 1 << 8,    // CR and LF; they are kSpace as well
  kRest = 1 << 9,         // none of the above: controls, formats, private and unassigned code points
};

inline constexpr std::uint16_t kLetter = kUpper | kLower | kOtherLetter;

namespace character_class_internal {

constexpr std::uint16_t AsciiClasses(unsigned char c) {
  if (c == '\r' || c == '\n') return kSpace | kLineBreak;
  if (c == ' ' || (c >= '\t' && c <= '\f')) return kSpace;
  if (c >= '0' && c <= '9') return kNumber;
  if (c >= 'A' && c <= 'Z') return kUpper;
  if (c >= 'a' && c <= 'z') return kLower;
  if (c < 0x20 || c == 0x7F) return kRest;
  switch (c) {
    case '$':
    case '+':
    case '<':
    case '=':
    case '>':
    case '^':
    case '`':
    case '|':
    case '~':
      return kSymbol;
    default:
      return kPunctuation;
  }
}

constexpr std::array<std::uint16_t, 128> MakeAsciiTable() {
  std::array<std::uint16_t, 128> table{};
  for (unsigned char c = 0; c < 128; ++c) table[c] = AsciiClasses(c);
  return table;
}

inline constexpr std::array<std::uint16_t, 128> kAsciiTable = MakeAsciiTable();

}  // namespace character_class_internal

// For code points from U+0080 on; Unicode data from utf8proc.
std::uint16_t NonAsciiClasses(char32_t code_point);

inline std::uint16_t ClassesOf(char32_t code_point) {
  return code_point < 128 ? character_class_internal::kAsciiTable[code_point] : NonAsciiClasses(code_point);
}

}  // namespace skipjack
