// About what serving a model takes, from its file alone: for people who choose a machine or a quantisation.
// The CPU engine plans to the byte when it loads the model, and refuses it then if memory does not suffice.
#pragma once

#include <cstdint>

#include "model/model_config.h"

namespace skipjack {

// The daemon's defaults (docs/configuration.md).
struct ServingAssumptions {
  std::int32_t max_batch_tokens = 512;
  std::int32_t max_sequences = 32;
};

struct MemoryEstimate {
  double weights = 0;      // bytes once they are packed for the engine
  double activations = 0;  // of a step with the most tokens
  // KV cache with float16 numbers: of one full context, and of one for each sequence. The daemon takes the
  // latter, but no more than a quarter of the machine's memory.
  double kv_context = 0;
  double kv_sequences = 0;
};

MemoryEstimate EstimateMemory(const ModelConfig& config, const ModelTensors& tensors,
                              const ServingAssumptions& assumptions);

}  // namespace skipjack
