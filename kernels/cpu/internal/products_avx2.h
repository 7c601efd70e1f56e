// The integer products of AVX2: eight rows of weights for 32 columns stay in registers while the activation
// rows pass; float sums stay in L1. Every output sees the same operations in the same order however many rows
// there are.
#pragma once

#include "kernels/cpu/internal/simd_avx2.h"

namespace skipjack::kernels::avx2 {

class Products {
 public:
  static void Multiply(const IntegerChunk& chunk, const std::byte* activations, std::size_t row_bytes,
                       int rows, float* sums) {
    const Rows x{activations, row_bytes, rows};
    if (chunk.nibbles != nullptr) {
      return chunk.group == 32 ? Narrow<NibbleWeights, 8, 32>(chunk, x, sums)
                               : Narrow<NibbleWeights, 4, 16>(chunk, x, sums);
    }
    if (chunk.max_code > 63) {
      return chunk.group == 32 ? Wide<32>(chunk, x, sums) : Wide<16>(chunk, x, sums);
    }
    if (chunk.max_code > 31) {
      return chunk.group == 32 ? Narrow<ByteWeights, 2, 32>(chunk, x, sums)
                               : Narrow<ByteWeights, 2, 16>(chunk, x, sums);
    }
    return chunk.group == 32 ? Narrow<ByteWeights, 4, 32>(chunk, x, sums)
                             : Narrow<ByteWeights, 4, 16>(chunk, x, sums);
  }

 private:
  struct Rows {
    const std::byte* activations;
    std::size_t row_bytes;
    int count;
  };

  static __m256i Broadcast(const void* p) {
    std::int32_t quad;
    std::memcpy(&quad, p, sizeof(quad));
    return _mm256_set1_epi32(quad);
  }

  // Quads q = 0..7 of eight rows: `half` is 0 for panel rows 0..7, 1 for 8..15.
  struct NibbleWeights {
    static void Load(const IntegerChunk& chunk, int block, int half, __m256i* quads) {
      const std::uint8_t* codes = chunk.nibbles + 256 * block + 32 * half;
      for (int q = 0; q < 4; ++q) {
        const __m256i packed = Simd::Load256(codes + 64 * q);
        quads[q] = Simd::LowNibbles(packed);
        quads[q + 4] = Simd::HighNibbles(packed);
      }
    }
  };
  struct ByteWeights {
    static void Load(const IntegerChunk& chunk, int block, int half, __m256i* quads) {
      const std::uint8_t* codes = chunk.bytes + 512 * block + 32 * half;
      for (int q = 0; q < 8; ++q) quads[q] = Simd::Load256(codes + 64 * q);
    }
  };

  // Sum over kQuads quads in s32; kDepth pair sums fit s16 (see simd_avx2.h).
  template <int kDepth, int kQuads>
  static __m256i Dot(const __m256i* quads, const std::int8_t* x) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i total = _mm256_setzero_si256();
    for (int first = 0; first < kQuads; first += kDepth) {
      __m256i words = _mm256_maddubs_epi16(quads[first], Broadcast(x + 4 * first));
      for (int q = first + 1; q < first + kDepth; ++q) {
        words = _mm256_add_epi16(words, _mm256_maddubs_epi16(quads[q], Broadcast(x + 4 * q)));
      }
      const __m256i part = _mm256_madd_epi16(words, ones);
      total = first == 0 ? part : _mm256_add_epi32(total, part);
    }
    return total;
  }

  template <class Weights, int kDepth, int kGroup>
  static void Narrow(const IntegerChunk& chunk, const Rows& rows, float* sums) {
    constexpr int kGroups = kBlockColumns / kGroup;
    constexpr int kQuads = kGroup / 4;
    for (int b = 0; b < chunk.blocks; ++b) {
      for (int half = 0; half < 2; ++half) {
        __m256i quads[8];
        Weights::Load(chunk, b, half, quads);
        const float* scales = chunk.scales + b * kGroups * kPanelRows + 8 * half;
        const float* minima = chunk.minima + b * kGroups * kPanelRows + 8 * half;
        const std::byte* row = rows.activations + static_cast<std::size_t>(b) * sizeof(ActivationBlock8);
        float* total = sums + 8 * half;
        for (int m = 0; m < rows.count; ++m, row += rows.row_bytes, total += kPanelRows) {
          const auto& x = *reinterpret_cast<const ActivationBlock8*>(row);
          const __m256 x_scale = _mm256_broadcast_ss(&x.scale);
          __m256 sum = _mm256_load_ps(total);
          for (int g = 0; g < kGroups; ++g) {
            const __m256i dot = Dot<kDepth, kQuads>(quads + g * kQuads, x.codes + g * kGroup);
            const __m256 factor = _mm256_mul_ps(_mm256_load_ps(scales + g * kPanelRows), x_scale);
            sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), factor, sum);
            const float* x_sum = kGroup == 32 ? &x.sum : &x.half_sum[g];
            sum = _mm256_fmadd_ps(_mm256_load_ps(minima + g * kPanelRows), _mm256_broadcast_ss(x_sum), sum);
          }
          _mm256_store_ps(total, sum);
        }
      }
    }
  }

  // 16-bit activations: sixteen columns at a time, whose even and odd codes fill eight registers.
  template <int kGroup>
  static void Wide(const IntegerChunk& chunk, const Rows& rows, float* sums) {
    for (int step = 0; step < 2 * chunk.blocks; ++step) {  // of 16 columns
      const int group = kGroup == 32 ? step / 2 : step;
      const int part = step % 2;
      for (int half = 0; half < 2; ++half) {
        __m256i pairs[8];
        LoadPairs(chunk.bytes + 256 * step + 32 * half, pairs);
        const __m256 scale = _mm256_load_ps(chunk.scales + group * kPanelRows + 8 * half);
        const __m256 minimum = _mm256_load_ps(chunk.minima + group * kPanelRows + 8 * half);
        const std::byte* row =
            rows.activations + static_cast<std::size_t>(step / 2) * sizeof(ActivationBlock16);
        float* total = sums + 8 * half;
        for (int m = 0; m < rows.count; ++m, row += rows.row_bytes, total += kPanelRows) {
          const auto& x = *reinterpret_cast<const ActivationBlock16*>(row);
          const std::int16_t* codes = x.codes + 16 * part;
          __m256i dot = _mm256_madd_epi16(pairs[0], Broadcast(codes));
          for (int p = 1; p < 8; ++p)
            dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs[p], Broadcast(codes + 2 * p)));
          const __m256 factor = _mm256_mul_ps(scale, _mm256_broadcast_ss(&x.scale));
          __m256 sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), factor, _mm256_load_ps(total));
          sum = _mm256_fmadd_ps(minimum, _mm256_broadcast_ss(&x.half_sum[part]), sum);
          _mm256_store_ps(total, sum);
        }
      }
    }
  }

  // Codes of columns 0 and 2 (pairs[2q]) and 1 and 3 (pairs[2q + 1]) of quad q as s16, eight rows.
  static void LoadPairs(const std::uint8_t* codes, __m256i* pairs) {
    for (int q = 0; q < 4; ++q) {
      const __m256i quad = Simd::Load256(codes + 64 * q);
      pairs[2 * q] = _mm256_and_si256(quad, _mm256_set1_epi16(255));
      pairs[2 * q + 1] = _mm256_srli_epi16(quad, 8);
    }
  }
};

inline void Simd::MultiplyInteger(const IntegerChunk& chunk, const std::byte* activations,
                                  std::size_t row_bytes, int rows, float* sums) {
  Products::Multiply(chunk, activations, row_bytes, rows, sums);
}

}  // namespace skipjack::kernels::avx2
