// Rotary positions: the numbers every backend rotates with.
#pragma once

#include <span>
#include <vector>

#include "model/model_config.h"

namespace skipjack {

// Pair i of a head at position p turns by the angle p * inverse_frequencies[i]; afterwards both numbers of
// the pair are multiplied by `magnitude` (1 but for YaRN). Which numbers form pair i is RopeConfig::style.
struct RopeTable {
  std::vector<float> inverse_frequencies;  // RopeConfig::dimensions / 2
  float magnitude = 1.0f;
};

// `factors`: llama3's divisors, one per pair, or empty.
// Linear scaling divides every frequency by `factor` (Chen et al. 2023, arXiv:2306.15595). YaRN (Peng et al.
// 2023, arXiv:2309.00071, section 3.2) divides those that turn less than beta_slow times over the original
// context, keeps those that turn more than beta_fast times, blends linearly in between, and multiplies by 1 +
// 0.1 ln(factor).
RopeTable MakeRopeTable(const RopeConfig& config, std::span<const float> factors);

// The divisors of ModelTensors::rope_factors; empty when there are none.
std::vector<float> ReadRopeFactors(const TensorView& tensor);

}  // namespace skipjack
