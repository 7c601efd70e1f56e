// UTF-8 as the Unicode Standard defines it (table 3-7): no surrogates, no overlong forms, nothing above
// U+10FFFF.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skipjack::http {

struct Utf8Step {
  std::size_t bytes = 0;  // of one character, or of one maximal bad part (W3C: each becomes one U+FFFD)
  bool valid = false;
};

// What `text` (not empty) begins with.
Utf8Step NextUtf8(std::string_view text);

bool IsValidUtf8(std::string_view text);

// Characters of valid text; a bad part counts as one.
std::size_t CountCharacters(std::string_view text);

inline constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

// `text` with every bad part replaced by U+FFFD.
std::string ToValidUtf8(std::string_view text);

}  // namespace skipjack::http
