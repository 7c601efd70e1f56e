// UTF-8 as Unicode defines it (no surrogates, nothing beyond U+10FFFF, no overlong forms).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace skipjack {

// The first part of some bytes.
struct Utf8Part {
  enum class Kind : std::uint8_t {
    kCharacter,   // one whole character
    kBad,         // a maximal bad part: the bytes up to the first that cannot go on (Unicode 3.9, table 3-8)
    kUnfinished,  // all bytes that are left; they begin a character, and the rest of it may yet come
  };
  Kind kind = Kind::kBad;
  std::size_t length = 0;  // in bytes, at least 1
};

// `bytes` must not be empty. Looks at no more than four bytes.
Utf8Part FirstUtf8Part(std::string_view bytes);

// Offset of the first byte that belongs to no character, or npos when everything is well formed.
std::size_t FindInvalidUtf8(std::string_view bytes);

struct CodePoint {
  char32_t value = 0;
  std::uint32_t length = 0;  // in bytes
};

// The character at the front of `text`, which must be well formed and not empty.
inline CodePoint DecodeUtf8(const char* text) {
  const auto byte = [text](int i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {((first & 0x1Fu) << 6) | (byte(1) & 0x3Fu), 2};
  if (first < 0xF0) return {((first & 0x0Fu) << 12) | ((byte(1) & 0x3Fu) << 6) | (byte(2) & 0x3Fu), 3};
  return {((first & 0x07u) << 18) | ((byte(1) & 0x3Fu) << 12) | ((byte(2) & 0x3Fu) << 6) | (byte(3) & 0x3Fu),
          4};
}

// `code_point` must be a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string& out);

// Appends `bytes` with U+FFFD in place of every maximal bad part, an unfinished character at the end
// included.
void AppendLossyUtf8(std::string_view bytes, std::string& out);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

}  // namespace skipjack
