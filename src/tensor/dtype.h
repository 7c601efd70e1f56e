// The number types that model files store, numbered as GGUF numbers them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"

namespace skipjack {

enum class DType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
};

struct DTypeInfo {
  std::string_view name;        // "Q4_K"
  std::int64_t block_elements;  // numbers in one block; 1 for plain types
  std::int64_t block_bytes;     // bytes of one block
  bool can_dequantize;          // Dequantize() knows it
};

// nullopt for a number that names no type we know.
std::optional<DType> DTypeFromGguf(std::uint32_t value);
const DTypeInfo& Info(DType type);

// Bytes of a row of `elements` numbers, or an error when `elements` is negative, is no whole number of
// blocks, or the size overflows.
Result<std::int64_t> RowBytes(DType type, std::int64_t elements);

// Decodes whole blocks, read at any alignment, to the values ggml's reference code gives. Rows follow each
// other without gaps, so one call may decode many rows. Aborts where !Info(type).can_dequantize.
// source.size() must equal RowBytes(type, destination.size()); the caller has checked it.
void Dequantize(DType type, std::span<const std::byte> source, std::span<float> destination);

float HalfToFloat(std::uint16_t half);
std::uint16_t FloatToHalf(float value);  // round to nearest even
float BFloat16ToFloat(std::uint16_t value);
std::uint16_t FloatToBFloat16(float value);  // round to nearest even, NaN kept

}  // namespace skipjack
