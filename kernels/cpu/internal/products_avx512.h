// The integer products of VNNI. A tile of up to eight activation rows keeps its integer and float sums in
// registers while the chunk's weights stream by; each product is one vpdpbusd whose activation operand is
// broadcast from memory. Every output sees the same float operations in the same order however many rows
// there are (the integer part is exact in any order).
#pragma once

#include "kernels/cpu/internal/simd_avx512.h"

namespace skipjack::kernels::SKIPJACK_AVX512_NAMESPACE {

class Products {
 public:
  static void Multiply(const IntegerChunk& chunk, const std::byte* activations, std::size_t row_bytes,
                       int rows, float* sums) {
    const int tiles = (rows + kTile - 1) / kTile;
    for (int t = 0; t < tiles; ++t) {  // of nearly equal size
      const int first = rows * t / tiles;
      const int count = rows * (t + 1) / tiles - first;
      const Tile tile{activations + static_cast<std::size_t>(first) * row_bytes, row_bytes,
                      sums + first * kPanelRows};
      if (chunk.two_bits != nullptr) {
        chunk.group == 32 ? TileOf<TwoBits, 32, kTile>(count, chunk, tile)
                          : TileOf<TwoBits, 16, kTile>(count, chunk, tile);
      } else if (chunk.nibbles != nullptr) {
        chunk.group == 32 ? TileOf<Nibbles, 32, kTile>(count, chunk, tile)
                          : TileOf<Nibbles, 16, kTile>(count, chunk, tile);
      } else {
        chunk.group == 32 ? TileOf<Bytes, 32, kTile>(count, chunk, tile)
                          : TileOf<Bytes, 16, kTile>(count, chunk, tile);
      }
    }
  }

 private:
  static constexpr int kTile = 8;

  struct Tile {
    const std::byte* activations;
    std::size_t row_bytes;
    float* sums;

    const ActivationBlock& Block(int row, int block) const {
      return reinterpret_cast<const ActivationBlock*>(activations +
                                                      static_cast<std::size_t>(row) * row_bytes)[block];
    }
  };

  // Quad q (columns 4q..4q+3 of 16 rows) of a block as u8.
  struct TwoBits {
    static __m512i Quad(const IntegerChunk& chunk, int block, int q) {
      const __m512i packed = Simd::Load512(chunk.two_bits + 128 * block + 64 * (q / 4));
      return Simd::LowPairs(_mm512_srli_epi16(packed, static_cast<unsigned>(2 * (q % 4))));
    }
  };
  struct Nibbles {
    static __m512i Quad(const IntegerChunk& chunk, int block, int q) {
      const __m512i packed = Simd::Load512(chunk.nibbles + 256 * block + 64 * (q % 4));
      return q < 4 ? Simd::LowNibbles(packed) : Simd::HighNibbles(packed);
    }
  };
  struct Bytes {
    static __m512i Quad(const IntegerChunk& chunk, int block, int q) {
      return Simd::Load512(chunk.bytes + 512 * block + 64 * q);
    }
  };

  static __m512i Broadcast(const std::int8_t* p) {
    std::int32_t quad;
    std::memcpy(&quad, p, sizeof(quad));
    return _mm512_set1_epi32(quad);
  }

  template <class Codes, int kGroup, int kRows>
  static void TileOf(int count, const IntegerChunk& chunk, const Tile& tile) {
    if constexpr (kRows > 1) {
      if (count < kRows) return TileOf<Codes, kGroup, kRows - 1>(count, chunk, tile);
    }
    RunTile<Codes, kGroup, kRows>(chunk, tile);
  }

  template <class Codes, int kGroup, int kRows>
  static void RunTile(const IntegerChunk& chunk, const Tile& tile) {
    constexpr int kGroups = kBlockColumns / kGroup;
    __m512 total[kRows];
    for (int m = 0; m < kRows; ++m) total[m] = _mm512_loadu_ps(tile.sums + m * kPanelRows);
    for (int b = 0; b < chunk.blocks; ++b) {
      for (int g = 0; g < kGroups; ++g) {
        __m512i dots[kRows];
        Dots<Codes, kGroup, kRows>(chunk, tile, b, g, dots);
        const __m512 scale = _mm512_loadu_ps(chunk.scales + (b * kGroups + g) * kPanelRows);
        const __m512 minimum = _mm512_loadu_ps(chunk.minima + (b * kGroups + g) * kPanelRows);
        for (int m = 0; m < kRows; ++m) {
          const ActivationBlock& x = tile.Block(m, b);
          total[m] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(kGroups == 1 ? x.sum : x.half_sum[g]), total[m]);
          const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(x.scale));
          total[m] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[m]), factor, total[m]);
        }
      }
    }
    for (int m = 0; m < kRows; ++m) _mm512_storeu_ps(tile.sums + m * kPanelRows, total[m]);
  }

  // Few rows: two chains of products each, to hide the latency of vpdpbusd.
  template <class Codes, int kGroup, int kRows>
  static void Dots(const IntegerChunk& chunk, const Tile& tile, int block, int group, __m512i* dots) {
    constexpr int kQuads = kGroup / 4;
    constexpr int kChains = kRows <= 4 ? 2 : 1;
    __m512i chains[kChains][kRows];
    for (int c = 0; c < kChains; ++c) {
      for (int m = 0; m < kRows; ++m) chains[c][m] = _mm512_setzero_si512();
    }
    for (int q = 0; q < kQuads; ++q) {
      const __m512i quad = Codes::Quad(chunk, block, group * kQuads + q);
      for (int m = 0; m < kRows; ++m) {
        const std::int8_t* x = tile.Block(m, block).codes + group * kGroup + 4 * q;
        chains[q % kChains][m] = _mm512_dpbusd_epi32(chains[q % kChains][m], quad, Broadcast(x));
      }
    }
    for (int m = 0; m < kRows; ++m) {
      dots[m] = kChains == 1 ? chains[0][m] : _mm512_add_epi32(chains[0][m], chains[kChains - 1][m]);
    }
  }
};

inline void Simd::MultiplyInteger(const IntegerChunk& chunk, const std::byte* activations,
                                  std::size_t row_bytes, int rows, float* sums) {
  Products::Multiply(chunk, activations, row_bytes, rows, sums);
}

}  // namespace skipjack::kernels::SKIPJACK_AVX512_NAMESPACE
