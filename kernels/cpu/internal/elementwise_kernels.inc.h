// The row-wise kernels, compiled once per instruction-set level (float_kernels_*.cc).
#pragma once

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/internal/float_vector.h"

namespace skipjack::kernels {
namespace {

constexpr int kLanes = Vec::kLanes;

inline float SquareRoot(float x) {
  return __builtin_sqrtf(x);
}

void RmsNorm(const float* x, const float* weight, int count, float epsilon, float* y) {
  // Four independent sums hide the latency of the additions.
  Vec sums[4] = {Zero(), Zero(), Zero(), Zero()};
  int i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int s = 0; s < 4; ++s) {
      const Vec v = Load(x + i + s * kLanes);
      sums[s] = Fma(v, v, sums[s]);
    }
  }
  float squares = ReduceAdd(Add(Add(sums[0], sums[1]), Add(sums[2], sums[3])));
  for (; i < count; ++i) squares += x[i] * x[i];
  const float inverse = 1.0f / SquareRoot(squares / static_cast<float>(count) + epsilon);

  const Vec factor = Broadcast(inverse);
  int j = 0;
  for (; j + kLanes <= count; j += kLanes) Store(y + j, Mul(Mul(Load(x + j), factor), Load(weight + j)));
  for (; j < count; ++j) y[j] = x[j] * inverse * weight[j];
}

void RotatePairs(const float* x, const float* table, int pairs, float scale, float* y) {
  for (int p = 0; p < pairs; ++p) {
    const float even = x[2 * p];
    const float odd = x[2 * p + 1];
    const float cosine = table[2 * p];
    const float sine = table[2 * p + 1];
    y[2 * p] = (even * cosine - odd * sine) * scale;
    y[2 * p + 1] = (even * sine + odd * cosine) * scale;
  }
}

inline uint32_t Bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Rounds through a float addition whose exponent puts the half's last mantissa bit at the float's last place.
[[maybe_unused]] uint16_t HalfBits(float value) {
  const uint32_t sign = (Bits(value) >> 16) & 0x8000U;
  const uint32_t magnitude = Bits(value) & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65520 and above
  if (magnitude < 0x38800000U) {                                               // below 2^-14: subnormal
    float absolute;
    memcpy(&absolute, &magnitude, sizeof(absolute));
    return static_cast<uint16_t>(sign | (Bits(absolute + 0.5f) - Bits(0.5f)));
  }
  const uint32_t rounded = magnitude + 0xfffU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

void ToHalf(const float* x, int count, uint16_t* y) {
  int i = 0;
#if defined(__F16C__) && defined(__AVX2__)
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < count; ++i) y[i] = HalfBits(x[i]);
}

void ToBFloat16(const float* x, int count, uint16_t* y) {
  for (int i = 0; i < count; ++i) {
    const uint32_t bits = Bits(x[i]);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const uint32_t rounded = is_nan ? bits | 0x400000U : bits + 0x7fffU + ((bits >> 16) & 1U);
    y[i] = static_cast<uint16_t>(rounded >> 16);
  }
}

constexpr ElementwiseKernels kElementwiseKernels = {RmsNorm, RotatePairs, ToHalf, ToBFloat16};

}  // namespace
}  // namespace skipjack::kernels
