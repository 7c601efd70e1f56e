#include "text/jinja/text_value.h"

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

void AppendCodePoint(utf8proc_int32_t code, bool trusted, Text* out) {
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t count = utf8proc_encode_char(code, buffer);
  out->Append(std::string_view(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(count)),
              trusted);
}

// Applies `map` to each code point; bytes that form none pass through.
template <typename Map>
Text MapCodePoints(const Text& text, Map map) {
  Text out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t bytes = 0;
    const utf8proc_int32_t code = CodePointAt(text.bytes(), at, &bytes);
    if (code < 0) {
      out.Append(text.Substring(at, bytes));
    } else {
      AppendCodePoint(map(code), text.TrustedAt(at), &out);
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

std::vector<Text> SplitBySpace(const Text& text, std::int64_t limit) {
  std::vector<Text> parts;
  const std::string& bytes = text.bytes();
  std::size_t at = 0;
  while (true) {
    std::size_t width = 0;
    while (at < bytes.size() && IsSpaceAt(bytes, at, &width)) at += width;
    if (at == bytes.size()) return parts;
    if (limit >= 0 && static_cast<std::int64_t>(parts.size()) == limit) {
      parts.push_back(Strip(text.Substring(at), nullptr, false, true));
      return parts;
    }
    const std::size_t begin = at;
    while (at < bytes.size() && !IsSpaceAt(bytes, at, &width)) at += CodePointBytes(bytes, at);
    parts.push_back(text.Substring(begin, at - begin));
  }
}

std::vector<Text> SplitFromRight(const Text& text, const std::string& separator, std::int64_t limit) {
  std::vector<Text> parts;
  std::size_t end = text.size();
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    if (end < separator.size()) break;
    const std::size_t found = text.bytes().rfind(separator, end - separator.size());
    if (found == std::string::npos) break;
    parts.push_back(text.Substring(found + separator.size(), end - found - separator.size()));
    end = found;
  }
  parts.push_back(text.Substring(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

bool Text::FullyTrusted() const {
  if (mask_.empty()) return uniform_ || bytes_.empty();
  return mask_.find('\0') == std::string::npos;
}

Text Text::Substring(std::size_t begin, std::size_t count) const {
  begin = std::min(begin, bytes_.size());
  Text out(bytes_.substr(begin, count), uniform_);
  if (!mask_.empty()) out.mask_ = mask_.substr(begin, count);
  return out;
}

void Text::Append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  if (bytes_.empty()) {
    mask_.clear();
    uniform_ = trusted;
  }
  if (mask_.empty() && trusted != uniform_) mask_.assign(bytes_.size(), static_cast<char>(uniform_));
  bytes_.append(bytes);
  if (!mask_.empty()) mask_.append(bytes.size(), static_cast<char>(trusted));
}

void Text::Append(const Text& other) {
  if (other.mask_.empty()) {
    Append(other.bytes_, other.uniform_);
    return;
  }
  if (mask_.empty()) mask_.assign(bytes_.size(), static_cast<char>(uniform_));
  bytes_.append(other.bytes_);
  mask_.append(other.mask_);
}

void Text::Truncate(std::size_t size) {
  bytes_.resize(std::min(size, bytes_.size()));
  if (!mask_.empty()) mask_.resize(bytes_.size());
}

void Text::AppendTo(std::vector<Segment>* segments) const {
  for (std::size_t begin = 0; begin < size();) {
    const bool trusted = TrustedAt(begin);
    std::size_t end = mask_.empty() ? size() : begin + 1;
    while (end < size() && TrustedAt(end) == trusted) ++end;
    if (segments->empty() || segments->back().trusted != trusted) segments->push_back({"", trusted});
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

Text Strip(const Text& text, const std::string* characters, bool left, bool right) {
  const std::string& bytes = text.bytes();
  const auto strips = [&](std::size_t at, std::size_t* width) {
    if (characters == nullptr) return IsSpaceAt(bytes, at, width);
    *width = CodePointBytes(bytes, at);
    return characters->find(bytes.substr(at, *width)) != std::string::npos;
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
  return text.Substring(begin, end - begin);
}

Text MapCase(const Text& text, bool upper) {
  return MapCodePoints(text, [upper](utf8proc_int32_t code) {
    return upper ? utf8proc_toupper(code) : utf8proc_tolower(code);
  });
}

Text Capitalize(const Text& text) {
  bool first = true;
  return MapCodePoints(text, [&first](utf8proc_int32_t code) {
    const utf8proc_int32_t mapped = first ? utf8proc_totitle(code) : utf8proc_tolower(code);
    first = false;
    return mapped;
  });
}

// As Jinja's title filter: a word begins after white space, -, (, {, [ or <, also when it is no letter.
Text Title(const Text& text) {
  bool starts = true;
  return MapCodePoints(text, [&starts](utf8proc_int32_t code) {
    const bool separates = code == ' ' || (code >= 9 && code <= 13) || code == '-' || code == '(' ||
                           code == '{' || code == '[' || code == '<';
    const utf8proc_int32_t mapped =
        starts && IsLetter(code) ? utf8proc_totitle(code) : utf8proc_tolower(code);
    starts = separates;
    return mapped;
  });
}

Text Replace(const Text& text, const Text& from, const Text& to, std::int64_t limit) {
  Text out;
  std::size_t at = 0;
  while (limit != 0) {
    // An empty pattern matches before every code point and at the end, as in Python.
    const std::size_t found = text.bytes().find(from.bytes(), at);
    if (found == std::string::npos) break;
    if (from.empty()) {
      out.Append(to);
      if (at == text.size()) return out;
      const std::size_t width = CodePointBytes(text.bytes(), at);
      out.Append(text.Substring(at, width));
      at += width;
    } else {
      out.Append(text.Substring(at, found - at));
      out.Append(to);
      at = found + from.size();
    }
    if (limit > 0) --limit;
  }
  out.Append(text.Substring(at));
  return out;
}

Text Reverse(const Text& text) {
  Text out;
  for (std::size_t end = text.size(); end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && (static_cast<unsigned char>(text.bytes()[begin]) & 0xC0) == 0x80) --begin;
    out.Append(text.Substring(begin, end - begin));
    end = begin;
  }
  return out;
}

std::vector<Text> Split(const Text& text, const std::string* separator, std::int64_t limit, bool from_right) {
  if (separator == nullptr) return SplitBySpace(text, limit);
  if (from_right) return SplitFromRight(text, *separator, limit);
  std::vector<Text> parts;
  std::size_t at = 0;
  while (limit < 0 || static_cast<std::int64_t>(parts.size()) < limit) {
    const std::size_t found = text.bytes().find(*separator, at);
    if (found == std::string::npos) break;
    parts.push_back(text.Substring(at, found - at));
    at = found + separator->size();
  }
  parts.push_back(text.Substring(at));
  return parts;
}

std::vector<Text> SplitLines(const Text& text) {
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text.bytes()[at];
    if (c != '\n' && c != '\r') continue;
    lines.push_back(text.Substring(begin, at - begin));
    if (c == '\r' && at + 1 < text.size() && text.bytes()[at + 1] == '\n') ++at;
    begin = at + 1;
  }
  if (begin < text.size()) lines.push_back(text.Substring(begin));
  return lines;
}

}  // namespace skipjack::jinja
