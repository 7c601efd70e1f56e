// Activations as the integer kernels read them: per row and 32 columns a block of symmetric 8-bit codes, one
// float32 scale, and scaled sums of the codes (which carry the weights' minima).
//
// Two rules for the scale. kInt8 uses the whole range, |code| <= 127. kInt8Pairs bounds neighbours together,
// |code[2i]| + |code[2i + 1]| <= 128, which is what AVX2 needs against 8-bit weights: vpmaddubsw adds the
// products of two neighbours in 16 bits, and 255 * 128 is the most that fits without saturating. It costs at
// most one bit, and none where a block's range is set by a single outlier. VNNI multiplies any u8 by any s8
// exactly and needs only kInt8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.h"

namespace skipjack::kernels {

// kBFloat16: a row of bfloat16 numbers (nearest even), padded with zero to an even number of columns, for
// machines that multiply pairs of them.
enum class ActivationKind : std::uint8_t { kFloat32, kInt8, kInt8Pairs, kBFloat16 };
inline constexpr int kActivationKinds = 4;

// 32 columns. `sum` = scale * sum of all codes, `half_sum` those of columns 0..15 and 16..31.
struct ActivationBlock {
  std::int8_t codes[kBlockColumns];
  float scale;
  float sum;
  float half_sum[2];
};
static_assert(sizeof(ActivationBlock) == 48);

// Rows of activations in memory somebody else owns: plain numbers or the blocks above, row r at r *
// row_bytes.
struct Activations {
  ActivationKind kind = ActivationKind::kFloat32;
  const std::byte* data = nullptr;  // 16-byte aligned
  std::size_t row_bytes = 0;
};

// Bytes from the start of a row to `column`, a multiple of 32.
constexpr std::size_t ActivationOffset(ActivationKind kind, std::int64_t column) {
  const auto columns = static_cast<std::size_t>(column);
  if (kind == ActivationKind::kFloat32) return columns * sizeof(float);
  if (kind == ActivationKind::kBFloat16) return columns * sizeof(std::uint16_t);
  return columns / kBlockColumns * sizeof(ActivationBlock);
}

// Bytes to reserve per row. A multiple of 64 that avoids strides which map rows to the same cache sets.
std::size_t ActivationRowBytes(ActivationKind kind, std::int64_t columns);

}  // namespace skipjack::kernels
