// The llama family: pre-norm decoder, grouped-query attention, rotary positions, SwiGLU feed-forward.
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "model/architecture.h"
#include "model/metadata_reader.h"

namespace skipjack {
namespace {

constexpr std::int32_t kMaxLayers = 1024;
constexpr std::int32_t kMaxHidden = 1 << 18;
constexpr std::int32_t kMaxHeads = 4096;
constexpr std::int32_t kMaxHeadDim = 1024;
constexpr std::int32_t kMaxFeedForward = 1 << 20;
constexpr std::int32_t kMaxContext = 1 << 27;
constexpr std::int32_t kMaxVocabularyRows = 1 << 24;

void ReadHeads(MetadataReader* meta, ModelConfig* config) {
  config->heads = meta->PerLayerInt("attention.head_count", config->layers, 1, kMaxHeads);
  config->kv_heads = meta->Has("attention.head_count_kv")
                         ? meta->PerLayerInt("attention.head_count_kv", config->layers, 1, kMaxHeads)
                         : config->heads;
  if (config->heads % config->kv_heads != 0) {
    meta->Fail("llama.attention.head_count " + std::to_string(config->heads) +
               " is no multiple of llama.attention.head_count_kv " + std::to_string(config->kv_heads));
  }
  if (meta->Has("attention.key_length")) {
    config->head_dim = meta->Int("attention.key_length", 1, kMaxHeadDim);
  } else if (config->hidden % config->heads == 0 && config->hidden / config->heads <= kMaxHeadDim) {
    config->head_dim = config->hidden / config->heads;
  } else {
    meta->Fail("llama.embedding_length " + std::to_string(config->hidden) +
               " over llama.attention.head_count " + std::to_string(config->heads) +
               " gives no head size from 1 to " + std::to_string(kMaxHeadDim) +
               ", and llama.attention.key_length is missing");
  }
  const std::int32_t value_dim = meta->IntOr("attention.value_length", 1, kMaxHeadDim, config->head_dim);
  if (value_dim != config->head_dim) {
    meta->Fail("llama.attention.value_length " + std::to_string(value_dim) + " differs from the key's " +
               std::to_string(config->head_dim) + ", which is not supported");
  }
}

void ReadYarn(MetadataReader* meta, RopeConfig* rope) {
  rope->yarn_ext_factor = meta->FloatOr("rope.scaling.yarn_ext_factor", 0, 1, 1.0f);
  rope->yarn_attention_factor = meta->FloatOr("rope.scaling.attn_factor", 1e-3, 1e3, 1.0f);
  rope->yarn_attention_factor *= meta->FloatOr("rope.scaling.yarn_attn_factor", 1e-3, 1e3, 1.0f);
  rope->yarn_beta_fast = meta->FloatOr("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0f);
  rope->yarn_beta_slow = meta->FloatOr("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0f);
}

void ReadRopeScaling(MetadataReader* meta, std::int32_t context_length, RopeConfig* rope) {
  constexpr double kMaxFactor = 1e6;
  // Files from before rope.scaling.* have scale_linear; both together must agree.
  const float old_factor = meta->FloatOr("rope.scale_linear", 1e-6, kMaxFactor, 1.0f);
  rope->factor = meta->FloatOr("rope.scaling.factor", 1e-6, kMaxFactor, old_factor);
  if (meta->Has("rope.scale_linear") && rope->factor != old_factor) {
    meta->Fail("llama.rope.scaling.factor and llama.rope.scale_linear differ");
  }
  rope->original_context =
      meta->IntOr("rope.scaling.original_context_length", 1, kMaxContext, context_length);
  meta->Ignore({"rope.scaling.finetuned"});

  const std::string type = meta->StringOr("rope.scaling.type", rope->factor == 1.0f ? "none" : "linear");
  if (type == "yarn") {
    rope->scaling = RopeScalingKind::kYarn;
    ReadYarn(meta, rope);
    return;
  }
  meta->MustBeOff("rope.scaling.attn_factor", 1, "an attention factor without YaRN scaling");
  if (type == "linear") {
    rope->scaling = RopeScalingKind::kLinear;
  } else if (type == "none") {
    rope->factor = 1.0f;
  } else {
    meta->Fail("llama.rope.scaling.type is '" + type.substr(0, 32) +
               "'; none, linear and yarn are supported");
  }
}

void ReadRope(MetadataReader* meta, ModelConfig* config) {
  RopeConfig& rope = config->rope;
  rope.style = RopeStyle::kInterleaved;
  rope.dimensions = meta->IntOr("rope.dimension_count", 2, kMaxHeadDim, config->head_dim);
  if (rope.dimensions % 2 != 0 || rope.dimensions > config->head_dim) {
    meta->Fail("llama.rope.dimension_count is " + std::to_string(rope.dimensions) +
               ", not an even number up to the head size " + std::to_string(config->head_dim));
  }
  rope.base = meta->FloatOr("rope.freq_base", 1.001, 1e15, 10000.0f);
  ReadRopeScaling(meta, config->context_length, &rope);
}

void RefuseOtherFeatures(MetadataReader* meta) {
  meta->MustBeOff("expert_count", 0, "a mixture of experts");
  meta->MustBeOff("expert_used_count", 0, "a mixture of experts");
  meta->MustBeOff("attention.causal", 1, "attention that is not causal");
  meta->MustBeOff("attention.sliding_window", 0, "a sliding window");
  meta->MustBeOff("attention.max_alibi_bias", 0, "ALiBi");
  meta->MustBeOff("attention.clamp_kqv", 0, "clamping of q, k and v");
  meta->MustBeOff("attention.scale", 0, "an attention scale other than 1/sqrt(head size)");
  meta->MustBeOff("use_parallel_residual", 0, "a parallel residual");
  meta->MustBeOff("logit_scale", 0, "a logit scale");
  meta->MustBeOff("residual_scale", 0, "a residual scale");
  meta->MustBeOff("embedding_scale", 0, "an embedding scale");
  meta->Ignore({"tensor_data_layout"});
  meta->RefuseTheRest();
}

// The embedding's rows are the vocabulary; the file's other statements about it must fit.
void ReadVocabulary(const GgufFile& file, MetadataReader* meta, ModelConfig* config) {
  const std::int32_t announced = meta->IntOr("vocab_size", 1, kMaxVocabularyRows, 0);
  const TensorView* embedding = file.FindTensor("token_embd.weight");
  if (embedding == nullptr) return;  // the manifest names it as missing
  if (embedding->rows() > kMaxVocabularyRows) {
    meta->Fail("token_embd.weight has " + std::to_string(embedding->rows()) + " rows, over the limit of " +
               std::to_string(kMaxVocabularyRows));
    return;
  }
  config->vocabulary_rows = static_cast<std::int32_t>(embedding->rows());
  if (announced > config->vocabulary_rows) {
    meta->Fail("llama.vocab_size is " + std::to_string(announced) + ", but token_embd.weight has " +
               std::to_string(config->vocabulary_rows) + " rows");
  }
}

}  // namespace

Result<ModelConfig> ReadLlamaConfig(const GgufFile& file) {
  MetadataReader meta(file, "llama");
  ModelConfig config;
  config.layers = meta.Int("block_count", 1, kMaxLayers);
  config.hidden = meta.Int("embedding_length", 1, kMaxHidden);
  config.feed_forward = meta.PerLayerInt("feed_forward_length", config.layers, 1, kMaxFeedForward);
  config.context_length = meta.Int("context_length", 1, kMaxContext);
  config.norm_epsilon = meta.Float("attention.layer_norm_rms_epsilon", 1e-12, 1e-1);
  ReadHeads(&meta, &config);
  ReadRope(&meta, &config);
  ReadVocabulary(file, &meta, &config);
  config.tied_head = file.FindTensor("output.weight") == nullptr;
  RefuseOtherFeatures(&meta);
  if (!meta.status().ok()) return meta.status();
  return config;
}

void ListLlamaTensors(const ModelConfig& config, ModelTensors* tensors, TensorManifest* manifest) {
  const std::int64_t hidden = config.hidden;
  const std::int64_t query = std::int64_t{config.heads} * config.head_dim;
  const std::int64_t kv = std::int64_t{config.kv_heads} * config.head_dim;
  const std::int64_t inner = config.feed_forward;

  manifest->Require("token_embd.weight", {hidden, config.vocabulary_rows}, &tensors->token_embedding);
  manifest->Require("output_norm.weight", {hidden}, &tensors->output_norm);
  if (!config.tied_head) {
    manifest->Require("output.weight", {hidden, config.vocabulary_rows}, &tensors->output);
  }
  manifest->Allow("rope_freqs.weight", {config.rope.dimensions / 2}, &tensors->rope_factors);

  tensors->layers.resize(static_cast<std::size_t>(config.layers));
  std::int32_t index = 0;
  for (LayerTensors& layer : tensors->layers) {
    const std::string prefix = "blk." + std::to_string(index++) + ".";
    manifest->Require(prefix + "attn_norm.weight", {hidden}, &layer.attention_norm);
    manifest->Require(prefix + "attn_q.weight", {hidden, query}, &layer.query);
    manifest->Require(prefix + "attn_k.weight", {hidden, kv}, &layer.key);
    manifest->Require(prefix + "attn_v.weight", {hidden, kv}, &layer.value);
    manifest->Require(prefix + "attn_output.weight", {query, hidden}, &layer.attention_output);
    manifest->Allow(prefix + "attn_q.bias", {query}, &layer.query_bias);
    manifest->Allow(prefix + "attn_k.bias", {kv}, &layer.key_bias);
    manifest->Allow(prefix + "attn_v.bias", {kv}, &layer.value_bias);
    manifest->Allow(prefix + "attn_output.bias", {hidden}, &layer.attention_output_bias);
    manifest->Require(prefix + "ffn_norm.weight", {hidden}, &layer.feed_forward_norm);
    manifest->Require(prefix + "ffn_gate.weight", {hidden, inner}, &layer.gate);
    manifest->Require(prefix + "ffn_up.weight", {hidden, inner}, &layer.up);
    manifest->Require(prefix + "ffn_down.weight", {inner, hidden}, &layer.down);
  }
}

}  // namespace skipjack
