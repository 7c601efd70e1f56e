// Vectors of floats for kernels that are one source compiled once per instruction set: AVX-512,
// AVX2+FMA+F16C, or whatever the compiler makes of a 16-byte vector. Everything has internal linkage, so that
// a translation unit built for a newer processor never lends its code to the others.
//
// Results are deterministic for one instruction set: no function here depends on alignment or neighbours.
// Multiply-add is fused exactly where Fma() is written (the files that include this are built with
// -ffp-contract=off).
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace skipjack::kernels {
namespace {

// IEEE binary16 stored in KV; bfloat16 is the upper half of a float.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

#if defined(__AVX512F__)

struct Vec {
  static constexpr int kLanes = 16;
  __m512 v;
};
struct Mask {
  __mmask16 m;
};

inline Vec Zero() {
  return {_mm512_setzero_ps()};
}
inline Vec Broadcast(float x) {
  return {_mm512_set1_ps(x)};
}
inline Vec Load(const float* p) {
  return {_mm512_loadu_ps(p)};
}
inline Vec Load(const Half* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Vec Load(const BFloat16* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline void Store(float* p, Vec a) {
  _mm512_storeu_ps(p, a.v);
}
inline Vec Add(Vec a, Vec b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Vec Sub(Vec a, Vec b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Vec Mul(Vec a, Vec b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Vec Div(Vec a, Vec b) {
  return {_mm512_div_ps(a.v, b.v)};
}
inline Vec Fma(Vec a, Vec b, Vec c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
// Both return b when either is NaN.
inline Vec Max(Vec a, Vec b) {
  return {_mm512_max_ps(a.v, b.v)};
}
inline Vec Min(Vec a, Vec b) {
  return {_mm512_min_ps(a.v, b.v)};
}
inline Mask Less(Vec a, Vec b) {
  return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
}
inline Mask FirstLanes(int count) {
  return {static_cast<__mmask16>(count >= 16 ? 0xffff : (1U << (count < 0 ? 0 : count)) - 1U)};
}
inline Vec Select(Mask m, Vec if_set, Vec otherwise) {
  return {_mm512_mask_blend_ps(m.m, otherwise.v, if_set.v)};
}
// 2^n for the integer n in the low mantissa bits of `magic` (see Exp).
inline Vec PowerOfTwo(Vec magic) {
  const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(magic.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(bits, 23))};
}

#elif defined(__AVX2__)

struct Vec {
  static constexpr int kLanes = 8;
  __m256 v;
};
struct Mask {
  __m256 m;
};

inline Vec Zero() {
  return {_mm256_setzero_ps()};
}
inline Vec Broadcast(float x) {
  return {_mm256_set1_ps(x)};
}
inline Vec Load(const float* p) {
  return {_mm256_loadu_ps(p)};
}
inline Vec Load(const Half* p) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline Vec Load(const BFloat16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16))};
}
inline void Store(float* p, Vec a) {
  _mm256_storeu_ps(p, a.v);
}
inline Vec Add(Vec a, Vec b) {
  return {_mm256_add_ps(a.v, b.v)};
}
inline Vec Sub(Vec a, Vec b) {
  return {_mm256_sub_ps(a.v, b.v)};
}
inline Vec Mul(Vec a, Vec b) {
  return {_mm256_mul_ps(a.v, b.v)};
}
inline Vec Div(Vec a, Vec b) {
  return {_mm256_div_ps(a.v, b.v)};
}
inline Vec Fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.v, b.v, c.v)};
}
inline Vec Max(Vec a, Vec b) {
  return {_mm256_max_ps(a.v, b.v)};
}
inline Vec Min(Vec a, Vec b) {
  return {_mm256_min_ps(a.v, b.v)};
}
inline Mask Less(Vec a, Vec b) {
  return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)};
}
inline Mask FirstLanes(int count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane))};
}
inline Vec Select(Mask m, Vec if_set, Vec otherwise) {
  return {_mm256_blendv_ps(otherwise.v, if_set.v, m.m)};
}
inline Vec PowerOfTwo(Vec magic) {
  const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(magic.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(bits, 23))};
}

#else

typedef float Float4 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));

struct Vec {
  static constexpr int kLanes = 4;
  Float4 v;
};
struct Mask {
  Int4 m;
};

inline Vec Zero() {
  return {Float4{0, 0, 0, 0}};
}
inline Vec Broadcast(float x) {
  return {Float4{x, x, x, x}};
}
inline Vec Load(const float* p) {
  Vec a;
  memcpy(&a.v, p, sizeof(a.v));
  return a;
}
inline float ToFloat(Half h) {
  // Shift exponent and mantissa into place and rescale by 2^112: exact for normals and subnormals alike.
  const uint32_t magnitude = static_cast<uint32_t>(h.bits & 0x7fffU) << 13;
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000U) << 16;
  uint32_t bits = magnitude;
  float value;
  memcpy(&value, &bits, sizeof(value));
  value *= 0x1p112f;
  memcpy(&bits, &value, sizeof(bits));
  if (magnitude >= 0x0f800000U) bits = magnitude | 0x7f800000U;  // infinity or NaN
  bits |= sign;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
inline float ToFloat(BFloat16 b) {
  const uint32_t bits = static_cast<uint32_t>(b.bits) << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}
inline Vec Load(const Half* p) {
  return {Float4{ToFloat(p[0]), ToFloat(p[1]), ToFloat(p[2]), ToFloat(p[3])}};
}
inline Vec Load(const BFloat16* p) {
  return {Float4{ToFloat(p[0]), ToFloat(p[1]), ToFloat(p[2]), ToFloat(p[3])}};
}
inline void Store(float* p, Vec a) {
  memcpy(p, &a.v, sizeof(a.v));
}
inline Vec Add(Vec a, Vec b) {
  return {a.v + b.v};
}
inline Vec Sub(Vec a, Vec b) {
  return {a.v - b.v};
}
inline Vec Mul(Vec a, Vec b) {
  return {a.v * b.v};
}
inline Vec Div(Vec a, Vec b) {
  return {a.v / b.v};
}
inline Vec Fma(Vec a, Vec b, Vec c) {
  return {a.v * b.v + c.v};
}
inline Vec Select(Mask m, Vec if_set, Vec otherwise) {
  return {m.m ? if_set.v : otherwise.v};
}
inline Vec Max(Vec a, Vec b) {
  return {a.v > b.v ? a.v : b.v};
}
inline Vec Min(Vec a, Vec b) {
  return {a.v < b.v ? a.v : b.v};
}
inline Mask Less(Vec a, Vec b) {
  return {a.v < b.v};
}
inline Mask FirstLanes(int count) {
  return {Int4{0, 1, 2, 3} < Int4{count, count, count, count}};
}
inline Vec PowerOfTwo(Vec magic) {
  Int4 bits;
  memcpy(&bits, &magic.v, sizeof(bits));
  bits = (bits + 127) << 23;
  Vec a;
  memcpy(&a.v, &bits, sizeof(bits));
  return a;
}

#endif

// Sums and maxima over the lanes, always in the same order.
inline float ReduceAdd(Vec a) {
  float lanes[Vec::kLanes];
  Store(lanes, a);
  for (int width = Vec::kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

inline float ReduceMax(Vec a) {
  float lanes[Vec::kLanes];
  Store(lanes, a);
  for (int width = Vec::kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] = lanes[i] > lanes[i + width] ? lanes[i] : lanes[i + width];
  }
  return lanes[0];
}

// e^x within 2 units in the last place over [-87.3, 88.3]: x = n ln 2 + r, a polynomial of degree 6 for e^r
// (the Cephes library's), times 2^n. Below that range the result is 0, above it is e^88.3; NaN stays NaN.
inline Vec Exp(Vec x) {
  const Vec lowest = Broadcast(-87.336544f);
  const Vec clamped = Max(lowest, Min(Broadcast(88.37f), x));
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the mantissa.
  const Vec magic = Broadcast(12582912.0f);
  const Vec shifted = Fma(clamped, Broadcast(1.44269504088896341f), magic);
  const Vec n = Sub(shifted, magic);
  Vec r = Fma(n, Broadcast(-0.693359375f), clamped);
  r = Fma(n, Broadcast(2.12194440e-4f), r);
  Vec p = Broadcast(1.9875691500e-4f);
  p = Fma(p, r, Broadcast(1.3981999507e-3f));
  p = Fma(p, r, Broadcast(8.3334519073e-3f));
  p = Fma(p, r, Broadcast(4.1665795894e-2f));
  p = Fma(p, r, Broadcast(1.6666665459e-1f));
  p = Fma(p, r, Broadcast(5.0000001201e-1f));
  p = Add(Fma(Mul(r, r), p, r), Broadcast(1.0f));
  return Select(Less(x, lowest), Zero(), Mul(p, PowerOfTwo(shifted)));
}

}  // namespace
}  // namespace skipjack::kernels
