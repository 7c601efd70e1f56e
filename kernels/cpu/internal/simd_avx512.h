// Sixteen lanes as one AVX-512 register, and the integer products of VNNI: vpdpbusd multiplies any u8 code by
// any s8 activation and adds four products in s32, exactly.
//
// The namespace and the header of the intrinsics can be given from outside: a test compiles this file over
// SIMDe to run it on machines without AVX-512.
#pragma once

#ifndef SKIPJACK_AVX512_NAMESPACE
#include <immintrin.h>
#define SKIPJACK_AVX512_NAMESPACE avx512
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/internal/linear_kernels.inc.h"

namespace skipjack::kernels::SKIPJACK_AVX512_NAMESPACE {

struct Simd {
  using Floats = __m512;

  static constexpr bool kMultipliesPacked = true;
  static constexpr bool kWideCodesNeedPairs = false;
  static constexpr bool kBFloat16Products = false;
  static constexpr int kFloatTile = 12;

  static Floats Load(const float* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  static Floats Set1(float x) { return _mm512_set1_ps(x); }
  static Floats Add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats Mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats Div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
  static Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  // b when either is NaN.
  static Floats Max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
  static Floats Min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
  static Floats Abs(Floats a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
  // Adding and subtracting 1.5 * 2^23 rounds to the nearest even integer.
  static Floats Round(Floats a) {
    const Floats magic = _mm512_set1_ps(12582912.0f);
    return _mm512_sub_ps(_mm512_add_ps(a, magic), magic);
  }
  // p * 2^n for integral n in [-126, 127].
  static Floats ScaleByPowerOfTwo(Floats p, Floats n) {
    // The low bits of n + 127 + 1.5 * 2^23 are n + 127.
    const __m512i bits = _mm512_castps_si512(_mm512_add_ps(n, _mm512_set1_ps(12582912.0f + 127.0f)));
    return _mm512_mul_ps(p, _mm512_castsi512_ps(_mm512_slli_epi32(bits, 23)));
  }
  // Lane i: a[i] + a[i ^ 1].
  static Floats PairSums(Floats a) { return _mm512_add_ps(a, _mm512_shuffle_ps(a, a, 0xb1)); }

  static float ReduceAdd(Floats v) {
    const __m256 both = _mm256_add_ps(LowHalf(v), HighHalf(v));
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
  }
  static float ReduceMax(Floats v) {
    const __m256 both = _mm256_max_ps(LowHalf(v), HighHalf(v));
    __m128 best = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
    best = _mm_max_ps(best, _mm_movehl_ps(best, best));
    return _mm_cvtss_f32(_mm_max_ss(best, _mm_movehdup_ps(best)));
  }

  static Floats LoadHalf(const std::uint16_t* p) {
    return Join(_mm256_cvtph_ps(Load128(p)), _mm256_cvtph_ps(Load128(p + 8)));
  }
  static Floats LoadBFloat16(const std::uint16_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        Join(_mm256_cvtepu16_epi32(Load128(p)), _mm256_cvtepu16_epi32(Load128(p + 8))), 16));
  }
  static Floats LoadBFloat16Even(const std::uint16_t* pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(Load512(pairs), 16));
  }
  static Floats LoadBFloat16Odd(const std::uint16_t* pairs) {
    const __m512i mask = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
    return _mm512_castsi512_ps(_mm512_and_si512(Load512(pairs), mask));
  }
  static Floats LoadInt8(const std::int8_t* p) {
    const __m128i v = Load128(p);
    return Join(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(v, v))));
  }
  static Floats LoadUint8(const std::uint8_t* p) {
    const __m128i v = Load128(p);
    return Join(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(v, v))));
  }

  static std::int32_t StoreCodes(Floats scaled, std::int8_t* out) {
    const __m256i low = _mm256_cvtps_epi32(LowHalf(scaled));
    const __m256i high = _mm256_cvtps_epi32(HighHalf(scaled));
    const __m128i words_low = _mm_packs_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    const __m128i words_high =
        _mm_packs_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packs_epi16(words_low, words_high));
    const __m256i both = _mm256_add_epi32(low, high);
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1)));
  }

  static void ExpandNibbles(const std::uint8_t* codes, std::uint8_t* out) {
    for (int i = 0; i < 256; i += 64) {
      Store512(out + i, LowNibbles(Load512(codes + i)));
      Store512(out + 256 + i, HighNibbles(Load512(codes + i)));
    }
  }
  static void ExpandTable(const std::uint8_t* codes, const std::uint8_t* table, std::uint8_t* out) {
    const __m512i entries = _mm512_broadcast_i32x4(Load128(table));
    for (int i = 0; i < 256; i += 64) {
      Store512(out + i, _mm512_shuffle_epi8(entries, LowNibbles(Load512(codes + i))));
      Store512(out + 256 + i, _mm512_shuffle_epi8(entries, HighNibbles(Load512(codes + i))));
    }
  }
  static void ExpandNibblesPlus1(const std::uint8_t* codes, std::uint8_t* out) {
    const __m512i bit = _mm512_set1_epi8(16);
    const __m512i plane = Load512(codes + 256);
    for (int q = 0; q < 4; ++q) {
      const __m512i nibbles = Load512(codes + 64 * q);
      // Bits q and q + 4 of the plane, moved to bit 4.
      const __m512i low = _mm512_and_si512(_mm512_slli_epi16(plane, static_cast<unsigned>(4 - q)), bit);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(plane, static_cast<unsigned>(q)), bit);
      Store512(out + 64 * q, _mm512_or_si512(LowNibbles(nibbles), low));
      Store512(out + 64 * (q + 4), _mm512_or_si512(HighNibbles(nibbles), high));
    }
  }
  static void ExpandNibblesPlus2(const std::uint8_t* codes, std::uint8_t* out) {
    const __m512i bits = _mm512_set1_epi8(0x30);
    const __m512i low_plane = Load512(codes + 256);
    const __m512i high_plane = Load512(codes + 320);
    for (int q = 0; q < 4; ++q) {
      const __m512i nibbles = Load512(codes + 64 * q);
      const __m512i low = _mm512_and_si512(PairToBit4(low_plane, q), bits);
      const __m512i high = _mm512_and_si512(PairToBit4(high_plane, q), bits);
      Store512(out + 64 * q, _mm512_or_si512(LowNibbles(nibbles), low));
      Store512(out + 64 * (q + 4), _mm512_or_si512(HighNibbles(nibbles), high));
    }
  }
  static void ExpandTwoBits(const std::uint8_t* codes, std::uint8_t* out) {
    const __m512i first = Load512(codes);
    const __m512i second = Load512(codes + 64);
    for (unsigned q = 0; q < 4; ++q) {
      Store512(out + 64 * q, LowPairs(_mm512_srli_epi16(first, 2 * q)));
      Store512(out + 64 * (q + 4), LowPairs(_mm512_srli_epi16(second, 2 * q)));
    }
  }
  static void ExpandTwoBitsPlus1(const std::uint8_t* codes, std::uint8_t* out) {
    const __m512i bit = _mm512_set1_epi8(4);
    const __m512i first = Load512(codes);
    const __m512i second = Load512(codes + 64);
    // Bits q and q + 4 of the plane, moved to bit 2 (two bits up first, so that no shift is negative).
    const __m512i plane = Load512(codes + 128);
    const __m512i low_plane = _mm512_slli_epi16(plane, 2);
    const __m512i high_plane = _mm512_srli_epi16(plane, 2);
    for (unsigned q = 0; q < 4; ++q) {
      const __m512i low = _mm512_and_si512(_mm512_srli_epi16(low_plane, q), bit);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(high_plane, q), bit);
      Store512(out + 64 * q, _mm512_or_si512(LowPairs(_mm512_srli_epi16(first, 2 * q)), low));
      Store512(out + 64 * (q + 4), _mm512_or_si512(LowPairs(_mm512_srli_epi16(second, 2 * q)), high));
    }
  }

  static void MultiplyInteger(const IntegerChunk& chunk, const std::byte* activations, std::size_t row_bytes,
                              int rows, float* sums);

  static __m128i Load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  static __m512i Load512(const void* p) { return _mm512_loadu_si512(p); }
  static void Store512(void* p, __m512i v) { _mm512_storeu_si512(p, v); }
  static __m512i LowNibbles(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
  static __m512i LowPairs(__m512i v) { return _mm512_and_si512(v, _mm512_set1_epi8(3)); }
  static __m512i HighNibbles(__m512i v) { return LowNibbles(_mm512_srli_epi16(v, 4)); }

 private:
  static __m256 LowHalf(Floats v) { return _mm512_castps512_ps256(v); }
  static __m256 HighHalf(Floats v) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
  }
  static __m512i Join(__m256i low, __m256i high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  static Floats Join(__m256 low, __m256 high) {
    return _mm512_castsi512_ps(Join(_mm256_castps_si256(low), _mm256_castps_si256(high)));
  }
  // Bit pair q (bits 2q, 2q + 1) of every byte, moved to bits 4 and 5; neighbours' bits come along.
  static __m512i PairToBit4(__m512i plane, int q) {
    switch (q) {
      case 0:
        return _mm512_slli_epi16(plane, 4);
      case 1:
        return _mm512_slli_epi16(plane, 2);
      case 2:
        return plane;
      default:
        return _mm512_srli_epi16(plane, 2);
    }
  }
};

}  // namespace skipjack::kernels::SKIPJACK_AVX512_NAMESPACE
