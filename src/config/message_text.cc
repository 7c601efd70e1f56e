#include "config/message_text.h"

namespace skipjack {

std::string Cleaned(std::string_view text) {
  std::size_t length = text.size();
  if (length > 64) {
    length = 64;
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  }
  std::string cleaned;
  for (const char c : text.substr(0, length)) {
    cleaned += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  if (length < text.size()) cleaned += "...";
  return cleaned;
}

}  // namespace skipjack
