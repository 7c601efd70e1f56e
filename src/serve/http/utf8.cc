#include "serve/http/utf8.h"

#include <cstdint>

namespace skipjack::http {
namespace {

struct LeadByte {
  std::size_t length = 0;          // 0: no character starts with this byte
  std::uint8_t second_low = 0x80;  // the range allowed for the second byte
  std::uint8_t second_high = 0xbf;
};

LeadByte Classify(std::uint8_t lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xc2) return {};
  if (lead < 0xe0) return {2};
  if (lead == 0xe0) return {3, 0xa0, 0xbf};
  if (lead == 0xed) return {3, 0x80, 0x9f};
  if (lead < 0xf0) return {3};
  if (lead == 0xf0) return {4, 0x90, 0xbf};
  if (lead < 0xf4) return {4};
  if (lead == 0xf4) return {4, 0x80, 0x8f};
  return {};
}

}  // namespace

Utf8Step NextUtf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const LeadByte lead = Classify(byte(0));
  if (lead.length <= 1) return {1, lead.length == 1};
  if (text.size() < 2 || byte(1) < lead.second_low || byte(1) > lead.second_high) return {1, false};
  for (std::size_t i = 2; i < lead.length; ++i) {
    if (i >= text.size() || (byte(i) & 0xc0) != 0x80) return {i, false};
  }
  return {lead.length, true};
}

bool IsValidUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    if (!step.valid) return false;
    text.remove_prefix(step.bytes);
  }
  return true;
}

std::size_t CountCharacters(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(NextUtf8(text).bytes);
  return count;
}

std::string ToValidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    out += step.valid ? text.substr(0, step.bytes) : kReplacementCharacter;
    text.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace skipjack::http
