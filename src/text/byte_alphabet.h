// GPT-2's byte alphabet: the names of tokens in byte-level vocabularies spell each byte as one printable
// character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace skipjack {

// The bytes that a token's name spells, or nullopt when it has a character outside the alphabet or is not
// UTF-8. A byte is spelt by itself where it is printable Latin-1; the other 68 are U+0100 and up, in order.
std::optional<std::string> BytesFromByteLevelName(std::string_view name);

}  // namespace skipjack
