// Random texts for property tests; the same in every run.
#pragma once

#include <cstddef>
#include <random>
#include <string>

namespace skipjack {

// Well-formed UTF-8 of `characters` characters: mostly such as patterns and normalisation treat specially,
// some from all of Unicode, with runs of equal ones.
std::string RandomText(std::mt19937_64& random, std::size_t characters);

// Any bytes, with pieces of characters among them.
std::string RandomBytes(std::mt19937_64& random, std::size_t bytes);

}  // namespace skipjack
