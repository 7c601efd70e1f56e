#include "text/utf8.h"

#include <cstring>

namespace skipjack {
namespace {

struct SecondByteRange {
  unsigned char low, high;
};

// Which second bytes may follow a first byte (Unicode 3.9, table 3-7).
SecondByteRange SecondByteAfter(unsigned char first) {
  switch (first) {
    case 0xE0:
      return {0xA0, 0xBF};  // shorter forms exist below
    case 0xED:
      return {0x80, 0x9F};  // surrogates above
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};  // U+10FFFF is the last
    default:
      return {0x80, 0xBF};
  }
}

std::size_t LengthAfter(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// Bytes at the front that are below 0x80, counted in steps of eight.
std::size_t AsciiPrefix(std::string_view bytes) {
  std::size_t count = 0;
  while (bytes.size() - count >= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + count, sizeof(word));
    if ((word & 0x8080808080808080ull) != 0) break;
    count += 8;
  }
  return count;
}

}  // namespace

Utf8Part FirstUtf8Part(std::string_view bytes) {
  using Kind = Utf8Part::Kind;
  const auto byte = [bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const std::size_t length = LengthAfter(byte(0));
  if (length == 0) return {Kind::kBad, 1};
  if (length == 1) return {Kind::kCharacter, 1};
  const SecondByteRange second = SecondByteAfter(byte(0));
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Kind::kUnfinished, i};
    const unsigned char low = i == 1 ? second.low : 0x80;
    const unsigned char high = i == 1 ? second.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Kind::kBad, i};
  }
  return {Kind::kCharacter, length};
}

std::size_t FindInvalidUtf8(std::string_view bytes) {
  std::size_t position = 0;
  while (position < bytes.size()) {
    if (static_cast<unsigned char>(bytes[position]) < 0x80) {
      const std::size_t ascii = AsciiPrefix(bytes.substr(position));
      position += ascii == 0 ? 1 : ascii;
      continue;
    }
    const Utf8Part part = FirstUtf8Part(bytes.substr(position));
    if (part.kind != Utf8Part::Kind::kCharacter) return position;
    position += part.length;
  }
  return std::string_view::npos;
}

void AppendUtf8(char32_t code_point, std::string& out) {
  const auto push = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0u | (code_point >> 6));
    push(0x80u | (code_point & 0x3Fu));
  } else if (code_point < 0x10000) {
    push(0xE0u | (code_point >> 12));
    push(0x80u | ((code_point >> 6) & 0x3Fu));
    push(0x80u | (code_point & 0x3Fu));
  } else {
    push(0xF0u | (code_point >> 18));
    push(0x80u | ((code_point >> 12) & 0x3Fu));
    push(0x80u | ((code_point >> 6) & 0x3Fu));
    push(0x80u | (code_point & 0x3Fu));
  }
}

void AppendLossyUtf8(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t ascii = AsciiPrefix(bytes);
    out.append(bytes.substr(0, ascii));
    bytes.remove_prefix(ascii);
    if (bytes.empty()) return;
    const Utf8Part part = FirstUtf8Part(bytes);
    out.append(part.kind == Utf8Part::Kind::kCharacter ? bytes.substr(0, part.length)
                                                       : kReplacementCharacter);
    bytes.remove_prefix(part.length);
  }
}

}  // namespace skipjack
