// GPT-2's byte alphabet: the names of tokens in byte-level vocabularies spell each byte as one printable
// character.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace skipjack {

// The character that stands for `byte`: itself for printable Latin-1, U+0100 and up for the other 68 in
// order.
char32_t ByteLevelCharacter(unsigned char byte);

// The bytes that a token's name spells, or nullopt when it has a character outside the alphabet or is not
// UTF-8.
std::optional<std::string> BytesFromByteLevelName(std::string_view name);

}  // namespace skipjack
