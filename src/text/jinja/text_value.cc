#include "text/jinja/text_value.h"

#include <string.h>  // memmem

#include <utf8proc.h>

#include <algorithm>

namespace skipjack::jinja {
namespace {

utf8proc_int32_t CodePointAt(std::string_view text, std::size_t at, std::size_t* bytes) {
  utf8proc_int32_t code = 0;
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
  const utf8proc_ssize_t read =
      utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  *bytes = read > 0 ? static_cast<std::size_t>(read) : 1;
  return read > 0 ? code : -1;
}

void AppendCodePoint(Meter& meter, utf8proc_int32_t code, bool trusted, Text* out) {
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(code, buffer);
  out->Append(meter, std::string_view(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(count)),
              trusted);
}

// Applies `map` to each code point; bytes that form none pass through.
template <typename Map>
Text MapCodePoints(Meter& meter, const Text& text, Map map) {
  Text out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t bytes = 0;
    const utf8proc_int32_t code = CodePointAt(text.bytes(), at, &bytes);
    meter.Read(bytes);
    if (code < 0) {
      out.AppendPart(meter, text, at, bytes);
    } else {
      AppendCodePoint(meter, map(code), text.TrustedAt(at), &out);
    }
    at += bytes;
  }
  return out;
}

bool IsLetter(utf8proc_int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

std::vector<Text> SplitBySpace(Meter& meter, const Text& text, std::int64_t limit) {
  std::vector<Text> parts;
  const std::string& bytes = text.bytes();
  std::size_t at = 0;
  while (true) {
    std::size_t width = 0;
    while (at < bytes.size() && IsSpaceAt(bytes, at, &width)) at += width;
    if (at == bytes.size()) return parts;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) == limit) {
      parts.push_back(Strip(meter, text.Substring(meter, at), nullptr, false, true));
      return parts;
    }
    const std::size_t begin = at;
    while (at < bytes.size() && !IsSpaceAt(bytes, at, &width)) at += CodePointBytes(bytes, at);
    parts.push_back(text.Substring(meter, begin, at - begin));
  }
}

// Finds separators backwards, as the same search through both strings turned round: a search that is linear
// is only at hand forwards.
std::vector<Text> SplitFromRight(Meter& meter, const Text& text, const std::string& separator,
                                 std::int64_t limit) {
  meter.Grow(text.size() + separator.size());
  const std::string backwards(text.bytes().rbegin(), text.bytes().rend());
  const std::string mark(separator.rbegin(), separator.rend());
  std::vector<Text> parts;
  std::size_t end = text.size();
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found = FindBytes(backwards, mark, text.size() - end);
    if (found == std::string::npos) break;
    const std::size_t begin = text.size() - found;  // behind the separator
    parts.push_back(text.Substring(meter, begin, end - begin));
    end = begin - separator.size();
  }
  parts.push_back(text.Substring(meter, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

bool Text::FullyTrusted() const {
  if (mask_.empty()) return uniform_ || bytes_.empty();
  return mask_.find('\0') == std::string::npos;
}

Text Text::Substring(Meter& meter, std::size_t begin, std::size_t count) const {
  begin = std::min(begin, bytes_.size());
  count = std::min(count, bytes_.size() - begin);
  meter.Grow(Meter::kTextBytes);
  meter.GrowText(0, count);
  Text out(bytes_.substr(begin, count), uniform_);
  if (mask_.empty()) return out;
  meter.Grow(count);
  out.mask_ = mask_.substr(begin, count);
  return out;
}

void Text::NeedMask(Meter& meter) {
  if (!mask_.empty()) return;
  meter.Grow(bytes_.size());
  mask_.assign(bytes_.size(), static_cast<char>(uniform_));
}

void Text::Append(Meter& meter, std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    mask_.clear();
    uniform_ = trusted;
  }
  meter.GrowText(bytes_.size(), bytes.size());
  if (trusted != uniform_) NeedMask(meter);
  if (!mask_.empty()) {
    meter.Grow(bytes.size());
    mask_.append(bytes.size(), static_cast<char>(trusted));
  }
  bytes_.append(bytes);
}

void Text::Append(Meter& meter, const Text& other) {
  AppendPart(meter, other, 0, other.size());
}

void Text::AppendPart(Meter& meter, const Text& other, std::size_t begin, std::size_t count) {
  const std::string_view bytes = std::string_view(other.bytes_).substr(begin, count);
  if (other.mask_.empty()) {
    Append(meter, bytes, other.uniform_);
    return;
  }
  if (bytes.empty()) return;
  meter.GrowText(bytes_.size(), bytes.size());
  NeedMask(meter);
  meter.Grow(bytes.size());
  mask_.append(other.mask_, begin, count);
  bytes_.append(bytes);
}

void Text::AppendTo(Meter& meter, std::vector<Segment>* segments) const {
  meter.Read(size());
  for (std::size_t begin = 0; begin < size();) {
    const bool trusted = TrustedAt(begin);
    std::size_t end = mask_.empty() ? size() : begin + 1;
    while (end < size() && TrustedAt(end) == trusted) ++end;
    if (segments->empty() || segments->back().trusted != trusted) {
      meter.Grow(Meter::kTextBytes);
      segments->push_back({"", trusted});
    }
    meter.Grow(end - begin);
    segments->back().text.append(bytes_, begin, end - begin);
    begin = end;
  }
}

std::size_t CodePointBytes(std::string_view text, std::size_t at) {
  std::size_t bytes = 0;
  CodePointAt(text, at, &bytes);
  return bytes;
}

std::size_t CodePointCount(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += CodePointBytes(text, at)) ++count;
  return count;
}

std::size_t CodePointOffset(std::string_view text, std::size_t index) {
  std::size_t at = 0;
  while (index > 0 && at < text.size()) {
    at += CodePointBytes(text, at);
    --index;
  }
  return at;
}

bool IsSpaceAt(std::string_view text, std::size_t at, std::size_t* bytes) {
  const utf8proc_int32_t code = CodePointAt(text, at, bytes);
  if (code < 0) return false;
  if (code < 128) return code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
  const utf8proc_category_t category = utf8proc_category(code);
  return code == 0x85 || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

std::size_t FindBytes(std::string_view text, std::string_view needle, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

Text Strip(Meter& meter, const Text& text, const std::string* characters, bool left, bool right) {
  const std::string& bytes = text.bytes();
  const auto strips = [&](std::size_t at, std::size_t* width) {
    meter.Read(characters == nullptr ? 1 : characters->size() + 1);
    if (characters == nullptr) return IsSpaceAt(bytes, at, width);
    *width = CodePointBytes(bytes, at);
    return characters->find(std::string_view(bytes).substr(at, *width)) != std::string::npos;
  };
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  std::size_t width = 0;
  while (left && begin < end && strips(begin, &width)) begin += width;
  while (right && end > begin) {
    std::size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(bytes[last]) & 0xC0) == 0x80) --last;
    if (!strips(last, &width)) break;
    end = last;
  }
  return text.Substring(meter, begin, end - begin);
}

Text MapCase(Meter& meter, const Text& text, bool upper) {
  return MapCodePoints(meter, text, [upper](utf8proc_int32_t code) {
    return upper ? utf8proc_toupper(code) : utf8proc_tolower(code);
  });
}

Text Capitalize(Meter& meter, const Text& text) {
  bool first = true;
  return MapCodePoints(meter, text, [&first](utf8proc_int32_t code) {
    const utf8proc_int32_t mapped = first ? utf8proc_totitle(code) : utf8proc_tolower(code);
    first = false;
    return mapped;
  });
}

// As Jinja's title filter: a word begins after white space, -, (, {, [ or <, also when it is no letter.
Text Title(Meter& meter, const Text& text) {
  bool starts = true;
  return MapCodePoints(meter, text, [&starts](utf8proc_int32_t code) {
    const bool separates = code == ' ' || (code >= 9 && code <= 13) || code == '-' || code == '(' ||
                           code == '{' || code == '[' || code == '<';
    const utf8proc_int32_t mapped =
        starts && IsLetter(code) ? utf8proc_totitle(code) : utf8proc_tolower(code);
    starts = separates;
    return mapped;
  });
}

Text Replace(Meter& meter, const Text& text, const Text& from, const Text& to, std::int64_t limit) {
  meter.Read(text.size() + from.size());
  Text out;
  std::size_t at = 0;
  while (limit != 0) {
    // An empty pattern matches before every code point and at the end, as in Python.
    const std::size_t found = FindBytes(text.bytes(), from.bytes(), at);
    if (found == std::string::npos) break;
    meter.Step();
    if (from.empty()) {
      out.Append(meter, to);
      if (at == text.size()) return out;
      const std::size_t width = CodePointBytes(text.bytes(), at);
      out.AppendPart(meter, text, at, width);
      at += width;
    } else {
      out.AppendPart(meter, text, at, found - at);
      out.Append(meter, to);
      at = found + from.size();
    }
    if (limit > 0) --limit;
  }
  out.AppendPart(meter, text, at, text.size() - at);
  return out;
}

Text Reverse(Meter& meter, const Text& text) {
  Text out;
  for (std::size_t end = text.size(); end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text.bytes()[begin]) & 0xC0) == 0x80) --begin;
    meter.Read(end - begin);
    out.AppendPart(meter, text, begin, end - begin);
    end = begin;
  }
  return out;
}

std::vector<Text> Split(Meter& meter, const Text& text, const std::string* separator, std::int64_t limit,
                        bool from_right) {
  meter.Read(text.size());
  if (separator == nullptr) return SplitBySpace(meter, text, limit);
  meter.Read(separator->size());
  if (from_right) return SplitFromRight(meter, text, *separator, limit);
  std::vector<Text> parts;
  std::size_t at = 0;
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found = FindBytes(text.bytes(), *separator, at);
    if (found == std::string::npos) break;
    parts.push_back(text.Substring(meter, at, found - at));
    at = found + separator->size();
  }
  parts.push_back(text.Substring(meter, at));
  return parts;
}

std::vector<Text> SplitLines(Meter& meter, const Text& text) {
  meter.Read(text.size());
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    if (c != '\n' && c != '\r') continue;
    lines.push_back(text.Substring(meter, begin, at - begin));
    if (c == '\r' && at + 1 < text.size() && text.bytes()[at + 1] == '\n') ++at;
    begin = at + 1;
  }
  if (begin < text.size()) lines.push_back(text.Substring(meter, begin));
  return lines;
}

}  // namespace skipjack::jinja
