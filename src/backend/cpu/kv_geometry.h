// Where keys and values lie in the KV pool: [block][layer][keys of all heads | values of all heads], in the
// order that kernels/cpu/attention.h describes. A block holds all layers contiguously, so that a swap is one
// copy.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention.h"
#include "model/model_source.h"

namespace skipjack {

struct KvGeometry {
  std::int32_t block_tokens = 0;
  std::int32_t layers = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t element_bytes = 0;

  static KvGeometry Of(const ModelConfig& config, std::int32_t block_tokens, std::int32_t element_bytes) {
    return {block_tokens, config.layers, config.kv_heads, config.head_dim, element_bytes};
  }

  std::int32_t value_stride() const { return kernels::ValueStride(head_dim); }
  std::int64_t head_key_bytes() const { return std::int64_t{block_tokens} * head_dim * element_bytes; }
  std::int64_t head_value_bytes() const {
    return std::int64_t{block_tokens} * value_stride() * element_bytes;
  }
  std::int64_t layer_bytes() const { return kv_heads * (head_key_bytes() + head_value_bytes()); }
  std::int64_t block_bytes() const { return layers * layer_bytes(); }

  // Offsets inside a block.
  std::int64_t KeyOffset(std::int32_t layer, std::int32_t head) const {
    return layer * layer_bytes() + head * head_key_bytes();
  }
  std::int64_t ValueOffset(std::int32_t layer, std::int32_t head) const {
    return layer * layer_bytes() + kv_heads * head_key_bytes() + head * head_value_bytes();
  }
  // Elements from a head's keys to the slot's number `dimension`; consecutive dimensions are kKeyLanes apart.
  std::int64_t KeyElement(std::int32_t slot, std::int32_t dimension) const {
    return std::int64_t{slot / kernels::kKeyLanes} * head_dim * kernels::kKeyLanes +
           std::int64_t{dimension} * kernels::kKeyLanes + slot % kernels::kKeyLanes;
  }
  std::int64_t ValueElement(std::int32_t slot, std::int32_t dimension) const {
    return std::int64_t{slot} * value_stride() + dimension;
  }
};

}  // namespace skipjack
