#include "tests/unit/backend/quantise_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "tests/unit/model/gguf_builder.h"

namespace skipjack {
namespace {

using gguf::Bytes;
using Numbers = std::span<const float>;

float AsHalf(float value) {
  return HalfToFloat(FloatToHalf(value));
}

std::string HalfBytes(float value) {
  return Bytes(FloatToHalf(value));
}

float LargestSize(Numbers x) {
  float largest = 0.0f;
  for (const float value : x) largest = std::max(largest, std::abs(value));
  return largest;
}

// round((x - offset) / scale) within [low, high]; 0 for a scale of 0.
int Code(float x, float offset, float scale, int low, int high) {
  if (scale == 0.0f) return std::clamp(0, low, high);
  return std::clamp(static_cast<int>(std::lround((x - offset) / scale)), low, high);
}

std::uint8_t Joined(int low_nibble, int high_nibble) {
  return static_cast<std::uint8_t>(low_nibble | (high_nibble << 4));
}

std::string Q8_0(Numbers x) {
  const float scale = AsHalf(LargestSize(x) / 127.0f);
  std::string block = HalfBytes(scale);
  for (const float value : x) block += Bytes(static_cast<std::int8_t>(Code(value, 0.0f, scale, -127, 127)));
  return block;
}

std::string Q4_0(Numbers x) {
  const float scale = AsHalf(LargestSize(x) / 7.0f);
  std::string block = HalfBytes(scale);
  const auto code = [&](std::size_t i) { return Code(x[i], 0.0f, scale, -7, 7) + 8; };
  for (std::size_t i = 0; i < 16; ++i) block += Bytes(Joined(code(i), code(i + 16)));
  return block;
}

std::string Q4_1(Numbers x) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const float minimum = AsHalf(*low);
  const float scale = AsHalf((*high - minimum) / 15.0f);
  std::string block = HalfBytes(scale) + HalfBytes(minimum);
  const auto code = [&](std::size_t i) { return Code(x[i], minimum, scale, 0, 15); };
  for (std::size_t i = 0; i < 16; ++i) block += Bytes(Joined(code(i), code(i + 16)));
  return block;
}

// Six-bit scales and minima of eight groups in twelve bytes: the last four groups' upper bits lie above the
// first four's.
std::string PackSixBits(const std::array<int, 8>& scales, const std::array<int, 8>& minima) {
  std::string packed;
  for (std::size_t g = 0; g < 4; ++g)
    packed += Bytes(static_cast<std::uint8_t>(scales[g] | (scales[g + 4] >> 4 << 6)));
  for (std::size_t g = 0; g < 4; ++g)
    packed += Bytes(static_cast<std::uint8_t>(minima[g] | (minima[g + 4] >> 4 << 6)));
  for (std::size_t g = 0; g < 4; ++g) packed += Bytes(Joined(scales[g + 4] & 15, minima[g + 4] & 15));
  return packed;
}

std::string Q4_K(Numbers x) {
  std::array<float, 8> scale, offset;
  for (std::size_t g = 0; g < 8; ++g) {
    const Numbers group = x.subspan(32 * g, 32);
    const auto [low, high] = std::minmax_element(group.begin(), group.end());
    offset[g] = std::max(0.0f, -*low);
    scale[g] = (*high + offset[g]) / 15.0f;
  }
  const float super_scale = AsHalf(LargestSize(scale) / 63.0f);
  const float super_minimum = AsHalf(LargestSize(offset) / 63.0f);
  std::array<int, 8> scales, minima;
  for (std::size_t g = 0; g < 8; ++g) {
    scales[g] = Code(scale[g], 0.0f, super_scale, 0, 63);
    minima[g] = Code(offset[g], 0.0f, super_minimum, 0, 63);
  }
  const auto code = [&](std::size_t i) {
    const std::size_t g = i / 32;
    return Code(x[i], -super_minimum * static_cast<float>(minima[g]),
                super_scale * static_cast<float>(scales[g]), 0, 15);
  };
  std::string block = HalfBytes(super_scale) + HalfBytes(super_minimum) + PackSixBits(scales, minima);
  for (std::size_t pair = 0; pair < 4; ++pair) {
    for (std::size_t i = 64 * pair; i < 64 * pair + 32; ++i) block += Bytes(Joined(code(i), code(i + 32)));
  }
  return block;
}

std::string Q6_K(Numbers x) {
  std::array<float, 16> scale;
  for (std::size_t g = 0; g < 16; ++g) scale[g] = LargestSize(x.subspan(16 * g, 16)) / 31.0f;
  const float super_scale = AsHalf(LargestSize(scale) / 127.0f);
  std::string scales;
  std::array<int, 256> codes;
  for (std::size_t g = 0; g < 16; ++g) {
    const int factor = Code(scale[g], 0.0f, super_scale, 0, 127);
    scales += Bytes(static_cast<std::int8_t>(factor));
    for (std::size_t i = 16 * g; i < 16 * g + 16; ++i)
      codes[i] = Code(x[i], 0.0f, super_scale * static_cast<float>(factor), -32, 31) + 32;
  }
  std::string low, high;
  for (std::size_t half = 0; half < 256; half += 128) {
    for (std::size_t i = half; i < half + 64; ++i) low += Bytes(Joined(codes[i] & 15, codes[i + 64] & 15));
    for (std::size_t i = half; i < half + 32; ++i) {
      high += Bytes(static_cast<std::uint8_t>((codes[i] >> 4) | (codes[i + 32] >> 4 << 2) |
                                              (codes[i + 64] >> 4 << 4) | (codes[i + 96] >> 4 << 6)));
    }
  }
  return low + high + scales + HalfBytes(super_scale);
}

std::string Block(DType type, Numbers x) {
  switch (type) {
    case DType::kF32:
      return Bytes(x[0]);
    case DType::kF16:
      return HalfBytes(x[0]);
    case DType::kQ8_0:
      return Q8_0(x);
    case DType::kQ4_0:
      return Q4_0(x);
    case DType::kQ4_1:
      return Q4_1(x);
    case DType::kQ4_K:
      return Q4_K(x);
    case DType::kQ6_K:
      return Q6_K(x);
    default:
      ADD_FAILURE() << "no encoder for " << Info(type).name;
      return std::string(static_cast<std::size_t>(Info(type).block_bytes), '\0');
  }
}

}  // namespace

std::string QuantiseRow(DType type, std::span<const float> values) {
  const auto elements = static_cast<std::size_t>(Info(type).block_elements);
  std::string blocks;
  for (std::size_t i = 0; i < values.size(); i += elements)
    blocks += Block(type, values.subspan(i, elements));
  return blocks;
}

}  // namespace skipjack
