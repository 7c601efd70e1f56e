#include "tests/unit/backend/synthetic_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "tensor/dtype.h"
#include "tests/unit/backend/quantise_row.h"
#include "tests/unit/model/gguf_builder.h"

namespace skipjack {
namespace {

using gguf::Bytes;

struct Stored {
  std::uint32_t type = 0;
  std::string data;
};

DType TypeByName(const std::string& name) {
  for (const DType type :
       {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ6_K}) {
    if (Info(type).name == name) return type;
  }
  ADD_FAILURE() << "synthetic models have no " << name;
  return DType::kF32;
}

// Encodes and replaces `values` by what the encoding stands for.
Stored Store(std::vector<float>& values, const std::string& name) {
  const DType type = TypeByName(name);
  Stored stored{static_cast<std::uint32_t>(type), QuantiseRow(type, values)};
  Dequantize(type, std::as_bytes(std::span(stored.data)), values);
  return stored;
}

struct Shape {
  std::string name;
  std::int64_t columns = 0;
  std::int64_t rows = 0;  // 0: a vector
  float scale = 0.0f;     // of the random values
  float offset = 0.0f;
};

std::vector<Shape> Shapes(const SyntheticConfig& config) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = std::int64_t{config.heads} * config.head_dim;
  const std::int64_t kv = std::int64_t{config.kv_heads} * config.head_dim;
  const auto matrix = [](const std::string& name, std::int64_t columns, std::int64_t rows) {
    return Shape{name, columns, rows, 2.0f / std::sqrt(static_cast<float>(columns)), 0.0f};
  };
  std::vector<Shape> shapes = {{"token_embd.weight", hidden, config.vocabulary, 1.0f, 0.0f},
                               {"output_norm.weight", hidden, 0, 0.3f, 1.0f}};
  if (!config.tied) shapes.push_back(matrix("output.weight", hidden, config.vocabulary));
  for (std::int32_t layer = 0; layer < config.layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    shapes.push_back({prefix + "attn_norm.weight", hidden, 0, 0.3f, 1.0f});
    shapes.push_back({prefix + "ffn_norm.weight", hidden, 0, 0.3f, 1.0f});
    shapes.push_back(matrix(prefix + "attn_q.weight", hidden, query));
    shapes.push_back(matrix(prefix + "attn_k.weight", hidden, kv));
    shapes.push_back(matrix(prefix + "attn_v.weight", hidden, kv));
    shapes.push_back(matrix(prefix + "attn_output.weight", query, hidden));
    shapes.push_back(matrix(prefix + "ffn_gate.weight", hidden, config.feed_forward));
    shapes.push_back(matrix(prefix + "ffn_up.weight", hidden, config.feed_forward));
    shapes.push_back(matrix(prefix + "ffn_down.weight", config.feed_forward, hidden));
    if (!config.biases) continue;
    shapes.push_back({prefix + "attn_q.bias", query, 0, 0.5f, 0.0f});
    shapes.push_back({prefix + "attn_k.bias", kv, 0, 0.5f, 0.0f});
    shapes.push_back({prefix + "attn_v.bias", kv, 0, 0.5f, 0.0f});
    shapes.push_back({prefix + "attn_output.bias", hidden, 0, 0.5f, 0.0f});
  }
  return shapes;
}

gguf::GgufBuilder Metadata(const SyntheticConfig& config) {
  const auto number = [](std::int32_t value) { return static_cast<std::uint32_t>(value); };
  gguf::GgufBuilder builder;
  builder.String("general.architecture", "llama")
      .U32("llama.block_count", number(config.layers))
      .U32("llama.context_length", number(config.context_length))
      .U32("llama.embedding_length", number(config.hidden))
      .U32("llama.feed_forward_length", number(config.feed_forward))
      .U32("llama.attention.head_count", number(config.heads))
      .U32("llama.attention.head_count_kv", number(config.kv_heads))
      .U32("llama.attention.key_length", number(config.head_dim))
      .U32("llama.attention.value_length", number(config.head_dim))
      .F32("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .F32("llama.rope.freq_base", config.rope_base);
  if (config.rope_dimensions > 0) builder.U32("llama.rope.dimension_count", number(config.rope_dimensions));
  if (!config.rope_scaling.empty()) {
    builder.String("llama.rope.scaling.type", config.rope_scaling)
        .F32("llama.rope.scaling.factor", config.rope_factor);
    if (config.original_context > 0) {
      builder.U32("llama.rope.scaling.original_context_length", number(config.original_context));
    }
  }
  return builder;
}

}  // namespace

std::unique_ptr<SyntheticModel> MakeSyntheticModel(
    const SyntheticConfig& config,
    const std::function<void(std::map<std::string, std::vector<float>>&)>& spoil) {
  auto model = std::make_unique<SyntheticModel>();
  model->config = config;
  gguf::GgufBuilder builder = Metadata(config);
  std::mt19937 random(config.seed);
  std::normal_distribution<float> normal;
  const std::vector<Shape> shapes = Shapes(config);
  for (const Shape& shape : shapes) {
    std::vector<float> values(
        static_cast<std::size_t>(shape.columns * std::max<std::int64_t>(1, shape.rows)));
    for (float& value : values) value = normal(random) * shape.scale + shape.offset;
    model->values[shape.name] = std::move(values);
  }
  if (spoil) spoil(model->values);
  for (const Shape& shape : shapes) {
    const std::size_t dot = shape.name.starts_with("blk.") ? shape.name.find('.', 4) + 1 : 0;
    const auto type = config.types.find(shape.name.substr(dot));
    Stored stored = Store(model->values[shape.name], type == config.types.end() ? "F32" : type->second);
    std::vector<std::uint64_t> dimensions = {static_cast<std::uint64_t>(shape.columns)};
    if (shape.rows > 0) dimensions.push_back(static_cast<std::uint64_t>(shape.rows));
    builder.Add({shape.name, dimensions, stored.type, stored.data, -1});
  }
  if (!config.rope_factors.empty()) {
    std::string data;
    for (const float factor : config.rope_factors) data += Bytes(factor);
    builder.Add({"rope_freqs.weight", {config.rope_factors.size()}, 0, data, -1});
  }

  model->file = gguf::HeapBytes(builder.Build());
  Result<std::unique_ptr<GgufFile>> file = GgufFile::Parse(model->file);
  if (!file.ok()) {
    ADD_FAILURE() << file.status().ToString();
    return nullptr;
  }
  Result<std::shared_ptr<const ModelSource>> source = ModelSource::FromFile(std::move(*file));
  if (!source.ok()) {
    ADD_FAILURE() << source.status().ToString();
    return nullptr;
  }
  model->source = std::move(*source);
  return model;
}

}  // namespace skipjack
