#include "model/memory_estimate.h"

#include <algorithm>

namespace skipjack {
namespace {

// Packed codes have two bits at least, and a scale for each group; float32 becomes bfloat16. Everything else
// takes what it takes in the file.
double PackedBytes(const TensorView& matrix) {
  constexpr double kLeastBits = 2.375;
  constexpr double kMostBits = 16;
  const auto elements = static_cast<double>(matrix.elements());
  if (matrix.empty()) return 0;
  const double bits = 8.0 * static_cast<double>(matrix.data.size()) / elements;
  return elements * std::clamp(bits, kLeastBits, kMostBits) / 8.0;
}

double Weights(const ModelTensors& tensors) {
  // The table is looked up as the file has it; the head is packed even where it is the same tensor.
  double bytes = static_cast<double>(tensors.token_embedding.data.size()) + PackedBytes(tensors.output);
  for (const LayerTensors& layer : tensors.layers) {
    for (const TensorView* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output,
                                     &layer.gate, &layer.up, &layer.down}) {
      bytes += PackedBytes(*matrix);
    }
  }
  return bytes;
}

// Floats: the residual stream and its normed copy, query, key and value, what attention and the feed-forward
// part give; logits of one row for each sequence; the table of rotations.
double Activations(const ModelConfig& config, const ServingAssumptions& assumptions) {
  const double query = static_cast<double>(config.heads) * config.head_dim;
  const double key_value = 2.0 * config.kv_heads * config.head_dim;
  const double a_token = 2.0 * config.hidden + 2.0 * query + key_value + config.feed_forward;
  const double logits = static_cast<double>(assumptions.max_sequences) * config.vocabulary_rows;
  const double rotations = static_cast<double>(config.context_length) * config.head_dim;
  return 4.0 * (a_token * assumptions.max_batch_tokens + logits + rotations);
}

}  // namespace

MemoryEstimate EstimateMemory(const ModelConfig& config, const ModelTensors& tensors,
                              const ServingAssumptions& assumptions) {
  MemoryEstimate estimate;
  estimate.weights = Weights(tensors);
  estimate.activations = Activations(config, assumptions);
  estimate.kv_context = static_cast<double>(config.KvBytesPerToken(2)) * config.context_length;
  estimate.kv_sequences = estimate.kv_context * assumptions.max_sequences;
  return estimate;
}

}  // namespace skipjack
