// Vector passes over one row of logits. A row is read in blocks of 64, and most passes skip the blocks whose
// maximum says that nothing in them matters. Compiled once per instruction set; all variants compute the same
// function, sums may differ in the last bits.
#pragma once

#include <cstdint>

namespace skipjack {

inline constexpr std::int32_t kBlockWidth = 64;

// A row of logits in blocks. The last, partial block is read from `tail`, a copy padded with -inf.
struct BlockedRow {
  const float* data = nullptr;
  const float* tail = nullptr;
  std::int32_t full_blocks = 0;
  std::int32_t blocks = 0;  // full ones, and one more when there is a tail
};

struct ScanResult {
  float maximum = 0.0f;
  bool has_nan = false;
};

// weight(x) = 2^((x - maximum) * scale), which is exp((x - maximum) / temperature) for scale = log2(e) /
// temperature; exactly 0 below 2^-126.
struct WeightScale {
  float maximum = 0.0f;
  float scale = 1.0f;
};

// Weights computed so far, block by block.
struct WeightCache {
  float* weights = nullptr;       // [blocks * 64]
  float* block_sums = nullptr;    // [blocks]
  std::uint8_t* ready = nullptr;  // [blocks]
};

struct Tally {
  std::int32_t count = 0;
  double mass = 0.0;  // sum of weights
};

struct VocabularyKernels {
  const char* name;

  // Fills block_maxima[blocks].
  ScanResult (*scan)(const BlockedRow& row, float* block_maxima);

  // How many of `count` values are at least `threshold`.
  std::int32_t (*count_values)(const float* values, std::int32_t count, float threshold);

  // How many logits of the row are at least `threshold`.
  std::int32_t (*count_row)(const BlockedRow& row, const float* block_maxima, float threshold);

  // Upper bounds of the sum of weights of each block: bounds[blocks].
  void (*bound_blocks)(const float* block_maxima, std::int32_t blocks, const WeightScale& scale,
                       float* bounds);

  // weights[64] of one block; returns their sum.
  float (*weigh_block)(const float* block, const WeightScale& scale, float* weights);

  // Computes the weights of every block whose maximum is at least `threshold` and that is not ready yet.
  void (*weigh_row)(const BlockedRow& row, const float* block_maxima, float threshold,
                    const WeightScale& scale, const WeightCache& cache);

  // All logits that are at least `threshold`; their blocks must be ready.
  Tally (*tally_row)(const BlockedRow& row, const float* block_maxima, float threshold,
                     const WeightCache& cache);

  // Indices of all logits in [low, high), ascending; returns how many. `indices` has room for the whole row.
  std::int32_t (*gather)(const BlockedRow& row, const float* block_maxima, float low, float high,
                         std::int32_t* indices);

  // Sum of the weights of the whole row, without keeping them. Blocks whose weights are all below 2^-48 are
  // left out: 2^20 of those tokens together change the sum by less than 2^-28.
  double (*total_weight)(const BlockedRow& row, const float* block_maxima, const WeightScale& scale);
};

// The best variant for this processor, and every variant that it can run (for tests).
const VocabularyKernels& BestVocabularyKernels();
const VocabularyKernels* GenericVocabularyKernels();
const VocabularyKernels* Avx2VocabularyKernels();  // nullptr where the processor or the build lacks it

}  // namespace skipjack
