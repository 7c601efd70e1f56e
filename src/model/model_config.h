// What a decoder-only transformer is made of: its dimensions and its weights by role.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/tensor_view.h"

namespace skipjack {

enum class RopeStyle : std::uint8_t {
  kInterleaved,  // pairs (0,1), (2,3), ...: GGUF's llama order
  kHalves,       // pairs (i, i + dim/2): "NeoX" order
};

enum class RopeScalingKind : std::uint8_t { kNone, kLinear, kYarn };

// See model/rope.h for what these numbers turn into.
struct RopeConfig {
  RopeStyle style = RopeStyle::kInterleaved;
  std::int32_t dimensions = 0;  // rotated part of a head: its first `dimensions` numbers
  float base = 10000.0f;
  RopeScalingKind scaling = RopeScalingKind::kNone;
  float factor = 1.0f;
  std::int32_t original_context = 0;
  float yarn_ext_factor = 1.0f;
  float yarn_attention_factor = 1.0f;
  float yarn_beta_fast = 32.0f;
  float yarn_beta_slow = 1.0f;
};

struct ModelConfig {
  std::string architecture;          // "llama"
  std::string name;                  // general.name, may be empty
  std::int32_t vocabulary_rows = 0;  // rows of the embedding matrix
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;  // divides heads
  std::int32_t head_dim = 0;
  std::int32_t feed_forward = 0;
  std::int32_t context_length = 0;  // what the model was trained for
  float norm_epsilon = 1e-5f;
  bool tied_head = false;
  RopeConfig rope;

  // Bytes of K and V one token needs over all layers at `bytes_per_element`.
  std::int64_t KvBytesPerToken(std::int64_t bytes_per_element) const {
    return 2 * bytes_per_element * layers * kv_heads * head_dim;
  }
};

// Weights of one decoder layer. Biases may be empty.
struct LayerTensors {
  TensorView attention_norm;
  TensorView query, key, value, attention_output;
  TensorView query_bias, key_bias, value_bias, attention_output_bias;
  TensorView feed_forward_norm;
  TensorView gate, up, down;
};

struct ModelTensors {
  TensorView token_embedding;
  TensorView output_norm;
  TensorView output;  // equals token_embedding when the head is tied
  TensorView
      rope_factors;  // llama3 per-frequency divisors, rope.dimensions / 2 positive numbers; may be empty
  std::vector<LayerTensors> layers;
};

}  // namespace skipjack
