#include "model/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace skipjack {
namespace {

// Length of the well-formed UTF-8 character at the start of `text` (Unicode 15, table 3-7), or 0.
std::size_t CharacterLength(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xbf;
  if (first == 0xe0) low = 0xa0;   // overlong
  if (first == 0xed) high = 0x9f;  // surrogates
  if (first == 0xf0) low = 0x90;   // overlong
  if (first == 0xf4) high = 0x8f;  // beyond U+10FFFF
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

// C0, DEL, and C1 controls, which terminals obey too.
bool IsControl(std::string_view character) {
  const auto first = static_cast<std::uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<std::uint8_t>(character[1]) < 0xa0;
}

void AppendEscaped(std::string_view bytes, std::string* out) {
  for (const char c : bytes) {
    switch (c) {
      case '\n':
        *out += "\\n";
        break;
      case '\t':
        *out += "\\t";
        break;
      case '\r':
        *out += "\\r";
        break;
      default:
        *out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<std::uint8_t>(c)));
        break;
    }
  }
}

}  // namespace

std::string Printable(std::string_view text, std::size_t longest) {
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t length = CharacterLength(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    used += character.size();
    if (used > longest) return out + "...";
    if (length == 0 || IsControl(character)) {
      AppendEscaped(character, &out);
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace skipjack
