#include "text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace skipjack {
namespace {

constexpr bool IsItsOwnCharacter(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr std::array<char16_t, 256> MakeCharacters() {
  std::array<char16_t, 256> characters{};
  char16_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = IsItsOwnCharacter(byte) ? static_cast<char16_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char16_t, 256> kCharacters = MakeCharacters();
constexpr std::size_t kAlphabetEnd = 0x100 + 68;

constexpr std::array<std::int16_t, kAlphabetEnd> MakeBytes() {
  std::array<std::int16_t, kAlphabetEnd> bytes{};
  for (std::int16_t& byte : bytes) byte = -1;
  for (unsigned byte = 0; byte < 256; ++byte) bytes[kCharacters[byte]] = static_cast<std::int16_t>(byte);
  return bytes;
}

constexpr std::array<std::int16_t, kAlphabetEnd> kBytes = MakeBytes();

}  // namespace

std::optional<std::string> BytesFromByteLevelName(std::string_view name) {
  if (FindInvalidUtf8(name) != std::string_view::npos) return std::nullopt;
  std::string bytes;
  bytes.reserve(name.size());
  for (std::size_t position = 0; position < name.size();) {
    const CodePoint c = DecodeUtf8(name.data() + position);
    if (c.value >= kAlphabetEnd || kBytes[c.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kBytes[c.value]));
    position += c.length;
  }
  return bytes;
}

}  // namespace skipjack
