// Sixteen lanes as two AVX2 registers, and the integer products of AVX2.
//
// Exactness without sign tricks. vpmaddubsw multiplies u8 codes by s8 activations and adds pairs into s16,
// saturating. A sum of n such pairs is at most n * max_code * (|x[2i]| + |x[2i + 1]|):
//   activations within 127 each:         codes up to 15: eight pairs 30480; up to 31: four 31496; up to 63:
//   two 32004 activations within 128 per pair:     codes up to 255: one pair 32640
// all below 32768: nothing can saturate, and the 16-bit sums are widened (vpmaddwd with ones) once per eight,
// four, two or one products.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/internal/linear_kernels.inc.h"

namespace skipjack::kernels::avx2 {

struct Simd {
  struct Floats {
    __m256 low, high;
  };

  static constexpr bool kMultipliesPacked = true;
  static constexpr bool kWideCodesNeedPairs = true;
  static constexpr bool kBFloat16Products = false;
  static constexpr int kFloatTile = 6;

  static Floats Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static void Store(float* p, Floats v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
  }
  static Floats Set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Floats Add(Floats a, Floats b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Floats Mul(Floats a, Floats b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Floats Div(Floats a, Floats b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static Floats MulAdd(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  // b when either is NaN.
  static Floats Max(Floats a, Floats b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static Floats Min(Floats a, Floats b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static Floats Abs(Floats a) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
  }
  static Floats Round(Floats a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    return {_mm256_round_ps(a.low, kNearest), _mm256_round_ps(a.high, kNearest)};
  }
  // p * 2^n for integral n in [-126, 127].
  static Floats ScaleByPowerOfTwo(Floats p, Floats n) {
    return {_mm256_mul_ps(p.low, PowerOfTwo(n.low)), _mm256_mul_ps(p.high, PowerOfTwo(n.high))};
  }

  // Lane i: a[i] + a[i ^ 1].
  static Floats PairSums(Floats a) {
    return {_mm256_add_ps(a.low, _mm256_permute_ps(a.low, 0xb1)),
            _mm256_add_ps(a.high, _mm256_permute_ps(a.high, 0xb1))};
  }

  static float ReduceAdd(Floats v) {
    const __m256 both = _mm256_add_ps(v.low, v.high);
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }
  static float ReduceMax(Floats v) {
    const __m256 both = _mm256_max_ps(v.low, v.high);
    __m128 best = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    best = _mm_max_ps(best, _mm_movehl_ps(best, best));
    return _mm_cvtss_f32(_mm_max_ss(best, _mm_movehdup_ps(best)));
  }

  static Floats LoadHalf(const std::uint16_t* p) {
    return {_mm256_cvtph_ps(Load128(p)), _mm256_cvtph_ps(Load128(p + 8))};
  }
  static Floats LoadBFloat16(const std::uint16_t* p) { return {WidenBFloat16(p), WidenBFloat16(p + 8)}; }
  static Floats LoadBFloat16Even(const std::uint16_t* pairs) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(Load256(pairs), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(Load256(pairs + 16), 16))};
  }
  static Floats LoadBFloat16Odd(const std::uint16_t* pairs) {
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    return {_mm256_castsi256_ps(_mm256_and_si256(Load256(pairs), mask)),
            _mm256_castsi256_ps(_mm256_and_si256(Load256(pairs + 16), mask))};
  }
  static Floats LoadInt8(const std::int8_t* p) {
    const __m128i v = Load128(p);
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(v, v)))};
  }
  static Floats LoadUint8(const std::uint8_t* p) {
    const __m128i v = Load128(p);
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(v, v)))};
  }

  static std::int32_t StoreCodes(Floats scaled, std::int8_t* out) {
    const __m256i low = _mm256_cvtps_epi32(scaled.low);
    const __m256i high = _mm256_cvtps_epi32(scaled.high);
    const __m128i words_low = _mm_packs_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    const __m128i words_high =
        _mm_packs_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packs_epi16(words_low, words_high));
    return ReduceAddInts(_mm256_add_epi32(low, high));
  }

  static void ExpandNibbles(const std::uint8_t* codes, std::uint8_t* out) {
    for (int i = 0; i < 256; i += 32) {
      Store256(out + i, LowNibbles(Load256(codes + i)));
      Store256(out + 256 + i, HighNibbles(Load256(codes + i)));
    }
  }
  static void ExpandTable(const std::uint8_t* codes, const std::uint8_t* table, std::uint8_t* out) {
    const __m256i entries = _mm256_broadcastsi128_si256(Load128(table));
    for (int i = 0; i < 256; i += 32) {
      Store256(out + i, _mm256_shuffle_epi8(entries, LowNibbles(Load256(codes + i))));
      Store256(out + 256 + i, _mm256_shuffle_epi8(entries, HighNibbles(Load256(codes + i))));
    }
  }
  static void ExpandNibblesPlus1(const std::uint8_t* codes, std::uint8_t* out) {
    const __m256i bit = _mm256_set1_epi8(16);
    for (int half = 0; half < 64; half += 32) {
      const __m256i plane = Load256(codes + 256 + half);
      for (int q = 0; q < 4; ++q) {
        const __m256i nibbles = Load256(codes + 64 * q + half);
        // Bits q and q + 4 of the plane, moved to bit 4.
        const __m256i low = _mm256_and_si256(_mm256_slli_epi16(plane, 4 - q), bit);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(plane, q), bit);
        Store256(out + 64 * q + half, _mm256_or_si256(LowNibbles(nibbles), low));
        Store256(out + 64 * (q + 4) + half, _mm256_or_si256(HighNibbles(nibbles), high));
      }
    }
  }
  static void ExpandNibblesPlus2(const std::uint8_t* codes, std::uint8_t* out) {
    const __m256i bits = _mm256_set1_epi8(0x30);
    for (int half = 0; half < 64; half += 32) {
      const __m256i low_plane = Load256(codes + 256 + half);
      const __m256i high_plane = Load256(codes + 320 + half);
      for (int q = 0; q < 4; ++q) {
        const __m256i nibbles = Load256(codes + 64 * q + half);
        const __m256i low = _mm256_and_si256(PairToBit4(low_plane, q), bits);
        const __m256i high = _mm256_and_si256(PairToBit4(high_plane, q), bits);
        Store256(out + 64 * q + half, _mm256_or_si256(LowNibbles(nibbles), low));
        Store256(out + 64 * (q + 4) + half, _mm256_or_si256(HighNibbles(nibbles), high));
      }
    }
  }
  static void ExpandTwoBits(const std::uint8_t* codes, std::uint8_t* out) {
    for (int half = 0; half < 64; half += 32) {
      const __m256i first = Load256(codes + half);
      const __m256i second = Load256(codes + 64 + half);
      for (int q = 0; q < 4; ++q) {
        Store256(out + 64 * q + half, LowPairs(_mm256_srli_epi16(first, 2 * q)));
        Store256(out + 64 * (q + 4) + half, LowPairs(_mm256_srli_epi16(second, 2 * q)));
      }
    }
  }
  static void ExpandTwoBitsPlus1(const std::uint8_t* codes, std::uint8_t* out) {
    const __m256i bit = _mm256_set1_epi8(4);
    for (int half = 0; half < 64; half += 32) {
      const __m256i first = Load256(codes + half);
      const __m256i second = Load256(codes + 64 + half);
      // Bits q and q + 4 of the plane, moved to bit 2 (two bits up first, so that no shift is negative).
      const __m256i plane = Load256(codes + 128 + half);
      const __m256i low_plane = _mm256_slli_epi16(plane, 2);
      const __m256i high_plane = _mm256_srli_epi16(plane, 2);
      for (int q = 0; q < 4; ++q) {
        const __m256i low = _mm256_and_si256(_mm256_srli_epi16(low_plane, q), bit);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(high_plane, q), bit);
        Store256(out + 64 * q + half, _mm256_or_si256(LowPairs(_mm256_srli_epi16(first, 2 * q)), low));
        Store256(out + 64 * (q + 4) + half,
                 _mm256_or_si256(LowPairs(_mm256_srli_epi16(second, 2 * q)), high));
      }
    }
  }

  static void MultiplyInteger(const IntegerChunk& chunk, const std::byte* activations, std::size_t row_bytes,
                              int rows, float* sums);

  // ---- shared with the products (products_avx2.h) ----

  static __m128i Load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static __m256i Load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
  static void Store256(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
  static __m256i LowNibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
  static __m256i LowPairs(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(3)); }
  static __m256i HighNibbles(__m256i v) { return LowNibbles(_mm256_srli_epi16(v, 4)); }

 private:
  static __m256 PowerOfTwo(__m256 n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  static __m256 WidenBFloat16(const std::uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(Load128(p)), 16));
  }
  static std::int32_t ReduceAddInts(__m256i v) {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
  }
  // Bit pair q (bits 2q, 2q + 1) of every byte, moved to bits 4 and 5; neighbours' bits come along.
  static __m256i PairToBit4(__m256i plane, int q) {
    switch (q) {
      case 0:
        return _mm256_slli_epi16(plane, 4);
      case 1:
        return _mm256_slli_epi16(plane, 2);
      case 2:
        return plane;
      default:
        return _mm256_srli_epi16(plane, 2);
    }
  }
};

}  // namespace skipjack::kernels::avx2
