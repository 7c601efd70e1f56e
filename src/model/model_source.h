// A model as it lies on disk, checked: its configuration and its named tensors. Immutable after Open().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace skipjack {

class GgufFile;

// One tensor inside a mapped file. `data` lives as long as the ModelSource it came from.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  // GGUF order: shape[0] is the contiguous dimension (input features), shape[1] the rows (output features).
  std::array<std::int64_t, 4> shape{1, 1, 1, 1};
  int rank = 1;
  std::span<const std::byte> data;

  std::int64_t columns() const { return shape[0]; }
  std::int64_t rows() const { return shape[1]; }
  bool empty() const { return data.empty(); }
};

enum class RopeStyle : std::uint8_t {
  kInterleaved,  // pairs (0,1), (2,3), ...: GGUF's llama order
  kHalves,       // pairs (i, i + dim/2): "NeoX" order
};

enum class RopeScalingKind : std::uint8_t { kNone, kLinear, kYarn };

struct RopeConfig {
  RopeStyle style = RopeStyle::kInterleaved;
  std::int32_t dimensions = 0;  // rotated part of a head
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
  std::string architecture;  // "llama"
  std::string name;          // general.name, may be empty
  std::int32_t vocabulary_rows = 0;  // rows of the embedding matrix
  std::int32_t layers = 0;
  std::int32_t hidden = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
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
  TensorView output;        // equals token_embedding when the head is tied
  TensorView rope_factors;  // llama3 per-frequency divisors; may be empty
  std::vector<LayerTensors> layers;
};

class ModelSource {
 public:
  // Reads and checks everything: the file's structure, the configuration, and that every tensor the architecture
  // needs is there with the right name, shape and a type we decode, and that none is left over. Errors name the
  // file, the tensor or key, and both numbers where there are two. `path`: a .gguf file, any part of a split set,
  // or a folder that holds exactly one set.
  static Result<std::shared_ptr<const ModelSource>> Open(const std::string& path);

  ~ModelSource();
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;

  const ModelConfig& config() const { return config_; }
  const ModelTensors& tensors() const { return tensors_; }
  const GgufFile& file() const { return *file_; }

  // Sum of all tensor bytes.
  std::int64_t weight_bytes() const;

  // Tells the kernel that mapped pages are no longer needed (after repacking), so that they leave our resident
  // set; reading `tensors()` afterwards still works and faults them in again.
  void DropMappedPages() const;

 private:
  ModelSource() = default;

  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
  ModelTensors tensors_;
};

}  // namespace skipjack
