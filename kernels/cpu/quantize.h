// Activations as the integer kernels read them: per row and 32 columns a block of symmetric integer codes,
// one float32 scale, and scaled sums of the codes (which carry the weights' minima).
//
// Why two widths: products of 8-bit activations with codes up to 63 can be summed in 16 bits without ever
// saturating (see linear_avx2). For codes up to 255 AVX2 has no exact 8-bit product, so these weights meet
// 16-bit activations (madd_epi16, exact in 32 bits), which costs nothing extra there and is nearly lossless.
// VNNI multiplies any u8 by any s8 exactly and always uses 8 bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.h"

namespace skipjack::kernels {

enum class ActivationKind : std::uint8_t { kFloat32, kInt8, kInt16 };

// 32 columns, codes in [-127, 127]. `sum` = scale * sum of all codes, `half_sum` those of columns 0..15
// and 16..31.
struct ActivationBlock8 {
  std::int8_t codes[kBlockColumns];
  float scale;
  float sum;
  float half_sum[2];
};
static_assert(sizeof(ActivationBlock8) == 48);

// 32 columns, codes in [-32767, 32767]; each four columns are stored in the order 0, 2, 1, 3, so that even
// and odd columns are adjacent pairs.
struct ActivationBlock16 {
  std::int16_t codes[kBlockColumns];
  float scale;
  float sum;
  float half_sum[2];
};
static_assert(sizeof(ActivationBlock16) == 80);

// Rows of activations in memory somebody else owns: plain floats or the blocks above, row r at r * row_bytes.
struct Activations {
  ActivationKind kind = ActivationKind::kFloat32;
  const std::byte* data = nullptr;  // 16-byte aligned
  std::size_t row_bytes = 0;
};

// Bytes to reserve per row. A multiple of 64 that avoids strides which map rows to the same cache sets.
std::size_t ActivationRowBytes(ActivationKind kind, std::int64_t columns);

}  // namespace skipjack::kernels
