// Words of the configuration file made fit for messages.
#pragma once

#include <string>
#include <string_view>

namespace skipjack {

// Without control characters, and cut at a character's border to about 64 bytes.
std::string Cleaned(std::string_view text);

// The same in quotes.
inline std::string Shown(std::string_view text) {
  return "'" + Cleaned(text) + "'";
}

}  // namespace skipjack
