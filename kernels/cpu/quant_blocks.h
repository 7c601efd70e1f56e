// Decodes the blocks of GGUF number types into integer codes and scales, without rounding anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/packed_matrix.h"

namespace skipjack::kernels {

// One source block (32 or 256 numbers) in the terms of its PackedFormat. Which scales are filled follows from
// PackedFormat::scale; groups are numbered from the block's start.
struct DecodedBlock {
  std::array<std::uint8_t, kChunkColumns> codes;    // after the table, with `zero` added
  std::array<std::uint8_t, kChunkColumns> nibbles;  // before it; filled when the format has a table
  std::array<std::uint16_t, 8> scale;               // kHalf, kBFloat16: bits, per group
  std::array<std::uint16_t, 8> minimum;             // stored minimum (kHalf): bits, per group
  std::uint16_t super_scale;                        // kTwoLevel: float16 bits
  std::uint16_t super_minimum;  // kTwoLevel: float16 bits; the minimum is -super_minimum * group_minimum
  std::array<std::int8_t, 16> group_scale;
  std::array<std::uint8_t, 16> group_minimum;
};

// Decodes one block of an integer source type.
void DecodeBlock(SourceType type, const std::byte* block, DecodedBlock* out);

// The SourceBlockElements(type) numbers a block stands for, as the format's definition rounds them in
// float32. Plain types (F32, F16, BF16) decode one number.
void DequantizeBlock(SourceType type, const std::byte* block, float* out);

float HalfBitsToFloat(std::uint16_t bits);
std::uint16_t FloatToHalfBits(float value);  // to nearest even; overflow becomes infinity
float BFloat16BitsToFloat(std::uint16_t bits);
std::uint16_t FloatToBFloat16Bits(float value);  // to nearest even; NaN stays NaN

}  // namespace skipjack::kernels
