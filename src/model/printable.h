// Text from files made fit for terminals and messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace skipjack {

// `text` with control characters and bytes that are no UTF-8 escaped ("\n", "\x1b"), cut at a character's
// border to at most `longest` bytes of it; "..." shows a cut. Other UTF-8 stays.
std::string Printable(std::string_view text, std::size_t longest);

}  // namespace skipjack
