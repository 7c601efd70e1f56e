// The integer products of AVX2: weights of 16 rows by 16 columns fill eight registers while the activation
// rows pass, so that each broadcast activation meets both halves of the panel; float sums stay in L1. Every
// output sees the same float operations in the same order however many rows there are (the integer part is
// exact in any order).
//
// The loop over rows is software-pipelined: the integer products of a row are issued before the scaling of
// the row before it. Without that the chain product, widen, convert, scale fills the floating-point scheduler
// and a third of the issue slots stay empty (Zen 3).
#pragma once

#include "kernels/cpu/internal/simd_avx2.h"

namespace skipjack::kernels::avx2 {

class Products {
 public:
  static void Multiply(const IntegerChunk& chunk, const std::byte* activations, std::size_t row_bytes,
                       int rows, float* sums) {
    const int tiles = (rows + kMaxRows - 1) / kMaxRows;
    for (int t = 0; t < tiles; ++t) {  // of nearly equal size
      const int first = rows * t / tiles;
      const int count = rows * (t + 1) / tiles - first;
      Dispatch(chunk, {activations + static_cast<std::size_t>(first) * row_bytes, row_bytes, count},
               sums + first * kPanelRows);
    }
  }

 private:
  // Rows whose activations (of one chunk), sums and partial products stay in L1 together.
  static constexpr int kMaxRows = 32;

  struct Rows {
    const std::byte* activations;
    std::size_t row_bytes;
    int count;
  };

  // Two registers for the 16 rows of a panel.
  struct Pair {
    __m256i low, high;
  };

  // quads[q]: columns 4q..4q+3 of the 16 columns in hand, one byte per code.
  struct Weights {
    Pair quads[4];
  };

  static void Dispatch(const IntegerChunk& chunk, const Rows& rows, float* sums) {
    if (chunk.two_bits != nullptr) return Run<TwoBits, 8>(chunk, rows, sums);
    if (chunk.nibbles != nullptr) return Run<Nibbles, 8>(chunk, rows, sums);
    if (chunk.max_code > 63) return Run<Bytes, 1>(chunk, rows, sums);
    if (chunk.max_code > 31) return Run<Bytes, 2>(chunk, rows, sums);
    if (chunk.max_code > 15) return Run<Bytes, 4>(chunk, rows, sums);
    return Run<Bytes, 8>(chunk, rows, sums);
  }

  struct TwoBits {
    static Weights Load(const IntegerChunk& chunk, int block, int half) {
      const std::uint8_t* codes = chunk.two_bits + 128 * block + 64 * half;
      const __m256i low = Simd::Load256(codes);
      const __m256i high = Simd::Load256(codes + 32);
      Weights w;
      for (int q = 0; q < 4; ++q) {
        w.quads[q] = {Simd::LowPairs(_mm256_srli_epi16(low, 2 * q)),
                      Simd::LowPairs(_mm256_srli_epi16(high, 2 * q))};
      }
      return w;
    }
  };
  struct Nibbles {
    static Weights Load(const IntegerChunk& chunk, int block, int half) {
      const std::uint8_t* codes = chunk.nibbles + 256 * block;
      Weights w;
      for (int q = 0; q < 4; ++q) {
        const __m256i low = Simd::Load256(codes + 64 * q);
        const __m256i high = Simd::Load256(codes + 64 * q + 32);
        w.quads[q] = half == 0 ? Pair{Simd::LowNibbles(low), Simd::LowNibbles(high)}
                               : Pair{Simd::HighNibbles(low), Simd::HighNibbles(high)};
      }
      return w;
    }
  };
  struct Bytes {
    static Weights Load(const IntegerChunk& chunk, int block, int half) {
      const std::uint8_t* codes = chunk.bytes + 512 * block + 256 * half;
      Weights w;
      for (int q = 0; q < 4; ++q)
        w.quads[q] = {Simd::Load256(codes + 64 * q), Simd::Load256(codes + 64 * q + 32)};
      return w;
    }
  };

  static __m256i Broadcast(const std::int8_t* p) {
    std::int32_t quad;
    std::memcpy(&quad, p, sizeof(quad));
    return _mm256_set1_epi32(quad);
  }

  static Pair Add16(Pair a, Pair b) {
    return {_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)};
  }
  static Pair Add32(Pair a, Pair b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  static Pair Widen(Pair words) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(words.low, ones), _mm256_madd_epi16(words.high, ones)};
  }

  // Sums of neighbouring products in s16.
  static Pair Quad(Pair codes, const std::int8_t* x) {
    const __m256i quad = Broadcast(x);
    return {_mm256_maddubs_epi16(codes.low, quad), _mm256_maddubs_epi16(codes.high, quad)};
  }

  // Products over 16 columns. kDepth: how many quads may be added in s16 (see simd_avx2.h). With eight the
  // result is still s16, to be added to that of the block's other half; else s32.
  template <int kDepth>
  static Pair Multiply16(const Weights& w, const std::int8_t* x) {
    const Pair q0 = Quad(w.quads[0], x);
    const Pair q1 = Quad(w.quads[1], x + 4);
    const Pair q2 = Quad(w.quads[2], x + 8);
    const Pair q3 = Quad(w.quads[3], x + 12);
    if constexpr (kDepth == 1) {
      return Add32(Add32(Widen(q0), Widen(q1)), Add32(Widen(q2), Widen(q3)));
    } else if constexpr (kDepth == 2) {
      return Add32(Widen(Add16(q0, q1)), Widen(Add16(q2, q3)));
    } else if constexpr (kDepth == 4) {
      return Widen(Add16(Add16(q0, q1), Add16(q2, q3)));
    } else {
      return Add16(Add16(q0, q1), Add16(q2, q3));
    }
  }

  // sums += minimum * x_sum + dots * (scale * x_scale)
  static void Scale(Pair dots, const float* scale, const float* minimum, float x_scale, float x_sum,
                    float* sums) {
    const __m256 xs = _mm256_set1_ps(x_sum);
    const __m256 low = _mm256_fmadd_ps(xs, _mm256_load_ps(minimum), _mm256_load_ps(sums));
    const __m256 high = _mm256_fmadd_ps(xs, _mm256_load_ps(minimum + 8), _mm256_load_ps(sums + 8));
    const __m256 xc = _mm256_set1_ps(x_scale);
    const __m256 low_factor = _mm256_mul_ps(xc, _mm256_load_ps(scale));
    const __m256 high_factor = _mm256_mul_ps(xc, _mm256_load_ps(scale + 8));
    _mm256_store_ps(sums, _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots.low), low_factor, low));
    _mm256_store_ps(sums + 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots.high), high_factor, high));
  }

  template <class Codes, int kDepth>
  static void Run(const IntegerChunk& chunk, const Rows& rows, float* sums) {
    if (chunk.group == kBlockColumns) {
      for (int b = 0; b < chunk.blocks; ++b) Block32<Codes, kDepth>(chunk, b, rows, sums);
    } else {
      for (int b = 0; b < chunk.blocks; ++b) {
        Group16<Codes, kDepth, 0>(chunk, b, rows, sums);
        Group16<Codes, kDepth, 1>(chunk, b, rows, sums);
      }
    }
  }

  static const ActivationBlock* Row(const Rows& rows, int block) {
    return reinterpret_cast<const ActivationBlock*>(rows.activations) + block;
  }
  static const ActivationBlock* Next(const ActivationBlock* x, const Rows& rows) {
    return reinterpret_cast<const ActivationBlock*>(reinterpret_cast<const std::byte*>(x) + rows.row_bytes);
  }

  // One scale for the block: the products of its first half wait in memory for those of the second.
  template <class Codes, int kDepth>
  static void Block32(const IntegerChunk& chunk, int block, const Rows& rows, float* sums) {
    Pair first_half[kMaxRows];
    Weights w = Codes::Load(chunk, block, 0);
    const ActivationBlock* x = Row(rows, block);
    for (int m = 0; m < rows.count; ++m, x = Next(x, rows)) first_half[m] = Multiply16<kDepth>(w, x->codes);

    w = Codes::Load(chunk, block, 1);
    const float* scale = chunk.scales + block * kPanelRows;
    const float* minimum = chunk.minima + block * kPanelRows;
    x = Row(rows, block);
    Pair products = Multiply16<kDepth>(w, x->codes + 16);
    const Pair* first = first_half;
    for (int m = 1; m < rows.count; ++m, sums += kPanelRows, ++first) {
      const ActivationBlock* next = Next(x, rows);
      const Pair next_products = Multiply16<kDepth>(w, next->codes + 16);
      Scale(Join<kDepth>(products, *first), scale, minimum, x->scale, x->sum, sums);
      products = next_products;
      x = next;
    }
    Scale(Join<kDepth>(products, *first), scale, minimum, x->scale, x->sum, sums);
  }

  template <int kDepth>
  static Pair Join(Pair a, Pair b) {
    return kDepth == 8 ? Widen(Add16(a, b)) : Add32(a, b);
  }

  template <class Codes, int kDepth, int kHalf>
  static void Group16(const IntegerChunk& chunk, int block, const Rows& rows, float* sums) {
    const Weights w = Codes::Load(chunk, block, kHalf);
    const float* scale = chunk.scales + (2 * block + kHalf) * kPanelRows;
    const float* minimum = chunk.minima + (2 * block + kHalf) * kPanelRows;
    const ActivationBlock* x = Row(rows, block);
    Pair products = Multiply16<kDepth>(w, x->codes + 16 * kHalf);
    for (int m = 1; m < rows.count; ++m, sums += kPanelRows) {
      const ActivationBlock* next = Next(x, rows);
      const Pair next_products = Multiply16<kDepth>(w, next->codes + 16 * kHalf);
      Scale(kDepth == 8 ? Widen(products) : products, scale, minimum, x->scale, x->half_sum[kHalf], sums);
      products = next_products;
      x = next;
    }
    Scale(kDepth == 8 ? Widen(products) : products, scale, minimum, x->scale, x->half_sum[kHalf], sums);
  }
};

inline void Simd::MultiplyInteger(const IntegerChunk& chunk, const std::byte* activations,
                                  std::size_t row_bytes, int rows, float* sums) {
  Products::Multiply(chunk, activations, row_bytes, rows, sums);
}

}  // namespace skipjack::kernels::avx2
