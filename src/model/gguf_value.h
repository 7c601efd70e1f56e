// The metadata values a GGUF file holds.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

namespace skipjack {

// Integers widen to int64/uint64 and floats to double; arrays keep one element type and do not nest.
using GgufValue = std::variant<std::int64_t, std::uint64_t, double, bool, std::string,
                               std::vector<std::int64_t>, std::vector<std::uint64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;

struct GgufMetadata {
  std::vector<std::string> keys;  // in file order
  std::unordered_map<std::string, GgufValue> values;
};

}  // namespace skipjack
