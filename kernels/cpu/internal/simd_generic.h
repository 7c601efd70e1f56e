// Sixteen lanes in plain C++ over GCC's vector extension; the compiler lowers them to what the baseline has.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/internal/linear_kernels.inc.h"
#include "kernels/cpu/quant_blocks.h"

namespace skipjack::kernels::generic {

struct Simd {
  using Floats = float __attribute__((vector_size(64)));
  using Ints = std::int32_t __attribute__((vector_size(64)));

  static constexpr bool kMultipliesPacked = false;
  static constexpr bool kWideCodesNeedPairs = false;
  static constexpr bool kBFloat16Products = false;
  static constexpr int kFloatTile = 2;

  static Floats Load(const float* p) {
    Floats v;
    std::memcpy(&v, p, sizeof(v));
    return v;
  }
  static void Store(float* p, Floats v) { std::memcpy(p, &v, sizeof(v)); }
  static Floats Set1(float x) { return x - Floats{}; }
  static Floats Add(Floats a, Floats b) { return a + b; }
  static Floats Mul(Floats a, Floats b) { return a * b; }
  static Floats Div(Floats a, Floats b) { return a / b; }
  static Floats MulAdd(Floats a, Floats b, Floats c) { return a * b + c; }  // two roundings
  static Floats Max(Floats a, Floats b) { return a > b ? a : b; }           // b when either is NaN
  static Floats Min(Floats a, Floats b) { return a < b ? a : b; }
  static Floats Abs(Floats a) { return reinterpret_cast<Floats>(reinterpret_cast<Ints>(a) & 0x7fffffff); }
  // Adding and subtracting 1.5 * 2^23 rounds to the nearest even integer.
  static Floats Round(Floats a) { return (a + Set1(12582912.0f)) - Set1(12582912.0f); }
  // p * 2^n for integral n in [-126, 127].
  static Floats ScaleByPowerOfTwo(Floats p, Floats n) {
    const Ints exponent = (__builtin_convertvector(n, Ints) + 127) << 23;
    return p * reinterpret_cast<Floats>(exponent);
  }

  // Lane i: a[i] + a[i ^ 1].
  static Floats PairSums(Floats a) {
    const Ints swap = {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14};
    return a + __builtin_shuffle(a, swap);
  }

  static float ReduceAdd(Floats v) {
    float sum = 0.0f;
    for (int i = 0; i < 16; ++i) sum += v[i];
    return sum;
  }
  static float ReduceMax(Floats v) {
    float best = v[0];
    for (int i = 1; i < 16; ++i) best = v[i] > best ? v[i] : best;
    return best;
  }

  static Floats LoadHalf(const std::uint16_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) v[i] = HalfBitsToFloat(p[i]);
    return v;
  }
  static Floats LoadBFloat16(const std::uint16_t* p) { return LoadBits(p, 1); }
  static Floats LoadBFloat16Even(const std::uint16_t* pairs) { return LoadBits(pairs, 2); }
  static Floats LoadBFloat16Odd(const std::uint16_t* pairs) { return LoadBits(pairs + 1, 2); }
  static Floats LoadInt8(const std::int8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) v[i] = static_cast<float>(p[i]);
    return v;
  }
  static Floats LoadUint8(const std::uint8_t* p) {
    Floats v;
    for (int i = 0; i < 16; ++i) v[i] = static_cast<float>(p[i]);
    return v;
  }

  static std::int32_t StoreCodes(Floats scaled, std::int8_t* out) {
    std::int32_t sum = 0;
    const Ints codes = __builtin_convertvector(Round(scaled), Ints);
    for (int i = 0; i < 16; ++i) {
      out[i] = static_cast<std::int8_t>(codes[i]);
      sum += codes[i];
    }
    return sum;
  }
  static void ExpandNibbles(const std::uint8_t* codes, std::uint8_t* out) {
    for (int i = 0; i < 256; ++i) {
      out[i] = codes[i] & 15;
      out[256 + i] = codes[i] >> 4;
    }
  }
  static void ExpandTable(const std::uint8_t* codes, const std::uint8_t* table, std::uint8_t* out) {
    for (int i = 0; i < 256; ++i) {
      out[i] = table[codes[i] & 15];
      out[256 + i] = table[codes[i] >> 4];
    }
  }
  static void ExpandNibblesPlus1(const std::uint8_t* codes, std::uint8_t* out) {
    ExpandNibbles(codes, out);
    for (int q = 0; q < 8; ++q) {
      for (int i = 0; i < 64; ++i) {
        const int bit = (codes[256 + i] >> q) & 1;
        out[64 * q + i] = static_cast<std::uint8_t>(out[64 * q + i] | (bit << 4));
      }
    }
  }
  static void ExpandNibblesPlus2(const std::uint8_t* codes, std::uint8_t* out) {
    ExpandNibbles(codes, out);
    for (int q = 0; q < 8; ++q) {
      for (int i = 0; i < 64; ++i) {
        const int bits = (codes[256 + 64 * (q / 4) + i] >> (2 * (q % 4))) & 3;
        out[64 * q + i] = static_cast<std::uint8_t>(out[64 * q + i] | (bits << 4));
      }
    }
  }
  static void ExpandTwoBits(const std::uint8_t* codes, std::uint8_t* out) {
    for (int q = 0; q < 8; ++q) {
      for (int i = 0; i < 64; ++i)
        out[64 * q + i] = static_cast<std::uint8_t>((codes[64 * (q / 4) + i] >> (2 * (q % 4))) & 3);
    }
  }
  static void ExpandTwoBitsPlus1(const std::uint8_t* codes, std::uint8_t* out) {
    ExpandTwoBits(codes, out);
    for (int q = 0; q < 8; ++q) {
      for (int i = 0; i < 64; ++i) {
        const int bit = (codes[128 + i] >> q) & 1;
        out[64 * q + i] = static_cast<std::uint8_t>(out[64 * q + i] | (bit << 2));
      }
    }
  }

  static void MultiplyInteger(const IntegerChunk& chunk, const std::byte* activations, std::size_t row_bytes,
                              int rows, float* sums) {
    for (int m = 0; m < rows; ++m, activations += row_bytes, sums += kPanelRows) {
      const auto* blocks = reinterpret_cast<const ActivationBlock*>(activations);
      Floats total = Load(sums);
      for (int b = 0; b < chunk.blocks; ++b) total = MultiplyBlock(chunk, b, blocks[b], total);
      Store(sums, total);
    }
  }

 private:
  static Floats LoadBits(const std::uint16_t* p, int step) {
    Ints bits;
    for (int i = 0; i < 16; ++i)
      bits[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(p[i * step]) << 16);
    return reinterpret_cast<Floats>(bits);
  }

  static Floats MultiplyBlock(const IntegerChunk& chunk, int b, const ActivationBlock& x, Floats total) {
    const std::uint8_t* codes = chunk.bytes + 512 * b;
    if (chunk.group == 32) {
      const Floats scale = Load(chunk.scales + b * kPanelRows) * x.scale;
      total = total + __builtin_convertvector(Dot(codes, x.codes, 8), Floats) * scale;
      return total + Load(chunk.minima + b * kPanelRows) * x.sum;
    }
    for (int half = 0; half < 2; ++half) {
      const int group = 2 * b + half;
      const Floats scale = Load(chunk.scales + group * kPanelRows) * x.scale;
      total =
          total + __builtin_convertvector(Dot(codes + 256 * half, x.codes + 16 * half, 4), Floats) * scale;
      total = total + Load(chunk.minima + group * kPanelRows) * x.half_sum[half];
    }
    return total;
  }

  static Ints Dot(const std::uint8_t* codes, const std::int8_t* x, int quads) {
    alignas(64) std::int32_t sums[kPanelRows] = {};
    for (int q = 0; q < quads; ++q) {
      for (int r = 0; r < kPanelRows; ++r) {
        const std::uint8_t* c = codes + 64 * q + 4 * r;
        sums[r] += c[0] * x[4 * q] + c[1] * x[4 * q + 1] + c[2] * x[4 * q + 2] + c[3] * x[4 * q + 3];
      }
    }
    Ints result;
    std::memcpy(&result, sums, sizeof(result));
    return result;
  }
};

}  // namespace skipjack::kernels::generic
