// The kernels, written with GCC's vector types at the width of the instruction set this file is compiled for.
// It is included by one source file per instruction set and must not include or instantiate anything with
// external linkage: the linker could pick an inline function compiled for instructions that the processor
// lacks.
#include <cstdint>

#include "sampling/vocabulary_kernels.h"

#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace skipjack {
namespace {

#ifdef __AVX2__
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Floats = float __attribute__((vector_size(4 * kLanes)));
using FloatsUnaligned = float __attribute__((vector_size(4 * kLanes), aligned(4)));
using Ints = std::int32_t __attribute__((vector_size(4 * kLanes)));
using Bits = std::uint32_t __attribute__((vector_size(4 * kLanes)));

constexpr float kSmallestExponent = -126.0f;
constexpr float kNegligibleExponent = -48.0f;
// More than the rounding of 64 weights and their sum.
constexpr float kBoundMargin = 1.0f + 4e-6f;

inline Floats Load(const float* p) {
  return *reinterpret_cast<const FloatsUnaligned*>(p);
}
inline void Store(float* p, Floats v) {
  *reinterpret_cast<FloatsUnaligned*>(p) = v;
}
inline Floats Splat(float value) {
  return Floats{} + value;
}
inline Floats Larger(Floats a, Floats b) {
  return a > b ? a : b;
}
inline Floats Select(Ints mask, Floats v) {
  return reinterpret_cast<Floats>(mask & reinterpret_cast<Ints>(v));
}

#ifdef __AVX2__
inline float SumLanes(Floats v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
}
inline float MaxLanes(Floats v) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_shuffle_ps(half, half, 1)));
}
#else
inline float SumLanes(Floats v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}
inline float MaxLanes(Floats v) {
  const float a = v[0] > v[2] ? v[0] : v[2];
  const float b = v[1] > v[3] ? v[1] : v[3];
  return a > b ? a : b;
}
#endif

inline std::int32_t CountLanes(Ints masks) {
  std::int32_t count = 0;
  for (int lane = 0; lane < kLanes; ++lane) count -= masks[lane];
  return count;
}

// Bit i is set where lane i is.
inline std::uint32_t LaneBits(Ints mask) {
#if defined(__AVX2__)
  return static_cast<std::uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(mask)));
#elif defined(__SSE2__)
  return static_cast<std::uint32_t>(_mm_movemask_ps(reinterpret_cast<__m128>(mask)));
#else
  std::uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= (mask[lane] != 0 ? 1u : 0u) << lane;
  return bits;
#endif
}

inline const float* BlockAt(const BlockedRow& row, std::int32_t block) {
  return block < row.full_blocks ? row.data + static_cast<std::int64_t>(block) * kBlockWidth : row.tail;
}

// 2^y for y in [-126, 0]: y = n + f with |f| <= 1/2, the minimax polynomial of Cephes' exp2f for 2^f
// (relative error below 1e-7, exact at 0) and n added to the exponent. Adding 1.5 * 2^23 leaves n in the low
// bits. Exactly 0 below -126.
inline Floats PowerOfTwo(Floats y) {
  const Floats magic = Splat(12582912.0f);
  const Floats shifted = y + magic;
  const Bits exponent = reinterpret_cast<Bits>(shifted) << 23;
  const Floats f = y - (shifted - magic);
  Floats p = Splat(1.535336188e-4f);
  p = p * f + 1.339887440e-3f;
  p = p * f + 9.618437357e-3f;
  p = p * f + 5.550332471e-2f;
  p = p * f + 2.402264791e-1f;
  p = p * f + 6.931472028e-1f;
  p = p * f + 1.0f;
  const Floats scaled = reinterpret_cast<Floats>(reinterpret_cast<Bits>(p) + exponent);
  return Select(y >= Splat(kSmallestExponent), scaled);
}

inline Floats Weigh(Floats x, const WeightScale& scale) {
  return PowerOfTwo((x - Splat(scale.maximum)) * Splat(scale.scale));
}

ScanResult Scan(const BlockedRow& row, float* block_maxima) {
  Ints unordered = {};
  Floats maximum = Splat(-__builtin_inff());
  for (std::int32_t block = 0; block < row.blocks; ++block) {
    const float* x = BlockAt(row, block);
    Floats larger = Load(x);
    unordered |= larger != larger;
    for (int i = kLanes; i < kBlockWidth; i += kLanes) {
      const Floats v = Load(x + i);
      unordered |= v != v;
      larger = Larger(v, larger);
    }
    maximum = Larger(larger, maximum);
    block_maxima[block] = MaxLanes(larger);
  }
  return {MaxLanes(maximum), CountLanes(unordered) != 0};
}

std::int32_t CountValues(const float* values, std::int32_t count, float threshold) {
  Ints masks = {};
  std::int32_t i = 0;
  for (; i + kLanes <= count; i += kLanes) masks += Load(values + i) >= Splat(threshold);
  std::int32_t total = CountLanes(masks);
  for (; i < count; ++i) total += values[i] >= threshold ? 1 : 0;
  return total;
}

std::int32_t CountRow(const BlockedRow& row, const float* block_maxima, float threshold) {
  Ints masks = {};
  for (std::int32_t block = 0; block < row.blocks; ++block) {
    if (block_maxima[block] < threshold) continue;
    const float* x = BlockAt(row, block);
    for (int i = 0; i < kBlockWidth; i += kLanes) masks += Load(x + i) >= Splat(threshold);
  }
  return CountLanes(masks);
}

void BoundBlocks(const float* block_maxima, std::int32_t blocks, const WeightScale& scale, float* bounds) {
  std::int32_t block = 0;
  const float full = static_cast<float>(kBlockWidth) * kBoundMargin;
  for (; block + kLanes <= blocks; block += kLanes) {
    Store(bounds + block, Weigh(Load(block_maxima + block), scale) * full);
  }
  for (; block < blocks; ++block) bounds[block] = Weigh(Splat(block_maxima[block]), scale)[0] * full;
}

// Two sums, so that the additions do not wait for one another.
inline float WeighBlock(const float* x, const WeightScale& scale, float* weights) {
  Floats even = {};
  Floats odd = {};
#pragma GCC unroll 4
  for (int i = 0; i < kBlockWidth; i += 2 * kLanes) {
    const Floats a = Weigh(Load(x + i), scale);
    const Floats b = Weigh(Load(x + i + kLanes), scale);
    if (weights != nullptr) {
      Store(weights + i, a);
      Store(weights + i + kLanes, b);
    }
    even += a;
    odd += b;
  }
  return SumLanes(even + odd);
}

float WeighOneBlock(const float* block, const WeightScale& scale, float* weights) {
  return WeighBlock(block, scale, weights);
}

void WeighRow(const BlockedRow& row, const float* block_maxima, float threshold, const WeightScale& scale,
              const WeightCache& cache) {
  for (std::int32_t block = 0; block < row.blocks; ++block) {
    if (block_maxima[block] < threshold || cache.ready[block] != 0) continue;
    float* weights = cache.weights + static_cast<std::int64_t>(block) * kBlockWidth;
    cache.block_sums[block] = WeighBlock(BlockAt(row, block), scale, weights);
    cache.ready[block] = 1;
  }
}

Tally TallyRow(const BlockedRow& row, const float* block_maxima, float threshold, const WeightCache& cache) {
  double mass = 0.0;
  Ints masks = {};
  for (std::int32_t block = 0; block < row.blocks; ++block) {
    if (block_maxima[block] < threshold) continue;
    const float* x = BlockAt(row, block);
    const float* weights = cache.weights + static_cast<std::int64_t>(block) * kBlockWidth;
    Floats sum = {};
    for (int i = 0; i < kBlockWidth; i += kLanes) {
      const Ints reached = Load(x + i) >= Splat(threshold);
      masks += reached;
      sum += Select(reached, Load(weights + i));
    }
    mass += static_cast<double>(SumLanes(sum));
  }
  return {CountLanes(masks), mass};
}

std::int32_t Gather(const BlockedRow& row, const float* block_maxima, float low, float high,
                    std::int32_t* indices) {
  std::int32_t count = 0;
  for (std::int32_t block = 0; block < row.blocks; ++block) {
    if (block_maxima[block] < low) continue;
    const float* x = BlockAt(row, block);
    for (std::int32_t i = 0; i < kBlockWidth; i += kLanes) {
      const Floats v = Load(x + i);
      std::uint32_t bits = LaneBits((v >= Splat(low)) & (v < Splat(high)));
      for (; bits != 0; bits &= bits - 1) indices[count++] = block * kBlockWidth + i + __builtin_ctz(bits);
    }
  }
  return count;
}

double TotalWeight(const BlockedRow& row, const float* block_maxima, const WeightScale& scale) {
  double total = 0.0;
  for (std::int32_t block = 0; block < row.blocks; ++block) {
    if ((block_maxima[block] - scale.maximum) * scale.scale < kNegligibleExponent) continue;
    total += static_cast<double>(WeighBlock(BlockAt(row, block), scale, nullptr));
  }
  return total;
}

constexpr VocabularyKernels Kernels(const char* name) {
  return {name,          Scan,     CountValues, CountRow, BoundBlocks,
          WeighOneBlock, WeighRow, TallyRow,    Gather,   TotalWeight};
}

}  // namespace
}  // namespace skipjack
