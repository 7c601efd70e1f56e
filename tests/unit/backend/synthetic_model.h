// Small llama models with random weights, made in memory, whose dimensions a test chooses.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/types.h"
#include "model/model_source.h"

namespace skipjack {

struct SyntheticConfig {
  std::int32_t layers = 2;
  std::int32_t hidden = 96;
  std::int32_t heads = 4;
  std::int32_t kv_heads = 2;
  std::int32_t head_dim = 32;
  std::int32_t feed_forward = 160;
  std::int32_t vocabulary = 101;  // not a multiple of anything
  std::int32_t context_length = 4096;
  bool tied = false;
  bool biases = false;
  std::int32_t rope_dimensions = 0;  // 0: head_dim
  float rope_base = 10000.0f;
  std::string rope_scaling = {};  // "", "linear", "yarn"
  float rope_factor = 1.0f;
  std::int32_t original_context = 0;
  std::vector<float> rope_factors = {};  // llama3 divisors
  std::uint32_t seed = 1;
  // Storage by tensor name's last part ("attn_q.weight"): "F32" (default), "F16", "Q8_0", "Q4_0",
  // "Q4_1", "Q4_K" or "Q6_K".
  std::map<std::string, std::string> types = {};
};

struct SyntheticModel {
  SyntheticConfig config;
  // Values by tensor name, as they come out of the stored type; row-major [rows, columns].
  std::map<std::string, std::vector<float>> values;
  std::shared_ptr<const ModelSource> source;
  std::vector<std::byte> file;  // `source` reads from it
};

// `spoil` may change values before they are stored (to put a NaN somewhere, say).
std::unique_ptr<SyntheticModel> MakeSyntheticModel(
    const SyntheticConfig& config,
    const std::function<void(std::map<std::string, std::vector<float>>&)>& spoil = {});

// All logits of every position, in double precision, straight from the formulas.
std::vector<std::vector<double>> ReferenceLogits(const SyntheticModel& model,
                                                 const std::vector<TokenId>& tokens);

}  // namespace skipjack
