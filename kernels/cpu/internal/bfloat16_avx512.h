// AVX-512 with the pair products of AVX512_BF16: vdpbf16ps adds two bfloat16 products to each float32 sum.
#pragma once

#include "kernels/cpu/internal/products_avx512.h"

namespace skipjack::kernels::SKIPJACK_AVX512_NAMESPACE {

struct BFloat16Simd : Simd {
  static constexpr bool kBFloat16Products = true;

  // `pairs` pairs of columns; the activations of row m are bfloat16 at activations + m * row_bytes.
  static void MultiplyBFloat16(const std::byte* weights, int pairs, const std::byte* activations,
                               std::size_t row_bytes, int rows, float* sums) {
    const int tiles = (rows + kFloatTile - 1) / kFloatTile;
    for (int t = 0; t < tiles; ++t) {
      const int first = rows * t / tiles;
      const int count = rows * (t + 1) / tiles - first;
      TileOf<kFloatTile>(count, weights, pairs, activations + static_cast<std::size_t>(first) * row_bytes,
                         row_bytes, sums + first * kPanelRows);
    }
  }

 private:
  template <int kRows>
  static void TileOf(int count, const std::byte* weights, int pairs, const std::byte* activations,
                     std::size_t row_bytes, float* sums) {
    if constexpr (kRows > 1) {
      if (count < kRows) return TileOf<kRows - 1>(count, weights, pairs, activations, row_bytes, sums);
    }
    __m512 total[kRows];
    for (int m = 0; m < kRows; ++m) total[m] = _mm512_loadu_ps(sums + m * kPanelRows);
    for (int k = 0; k < pairs; ++k) {
      const __m512i w = Load512(weights + 64 * k);
      for (int m = 0; m < kRows; ++m) {
        std::int32_t pair;
        std::memcpy(&pair, activations + static_cast<std::size_t>(m) * row_bytes + 4 * k, sizeof(pair));
        total[m] = Dot(total[m], w, _mm512_set1_epi32(pair));
      }
    }
    for (int m = 0; m < kRows; ++m) _mm512_storeu_ps(sums + m * kPanelRows, total[m]);
  }

  static __m512 Dot(__m512 sum, __m512i a, __m512i b) {
    __m512bh x;
    __m512bh y;
    std::memcpy(&x, &a, sizeof(x));
    std::memcpy(&y, &b, sizeof(y));
    return _mm512_dpbf16_ps(sum, x, y);
  }
};

}  // namespace skipjack::kernels::SKIPJACK_AVX512_NAMESPACE
