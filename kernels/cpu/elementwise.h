// The row-wise operations between the matrix products: norm, rotation, conversions.
//
// Every function treats one row; its result depends on that row alone, bit for bit. Pointers may be
// unaligned; inputs and outputs may be the same memory but not overlap otherwise.
#pragma once

#include <cstdint>

namespace skipjack::kernels {

struct ElementwiseKernels {
  // y = x / sqrt(mean(x^2) + epsilon) * weight
  void (*rms_norm)(const float* x, const float* weight, int count, float epsilon, float* y);
  // Rotates the pairs (x[2i], x[2i+1]) by the angle whose cosine and sine are table[2i], table[2i+1], and
  // multiplies by `scale`.
  void (*rotate_pairs)(const float* x, const float* table, int pairs, float scale, float* y);
  // Round to nearest even; overflow becomes infinity, NaN stays NaN.
  void (*to_half)(const float* x, int count, std::uint16_t* y);
  void (*to_bfloat16)(const float* x, int count, std::uint16_t* y);
};

}  // namespace skipjack::kernels
