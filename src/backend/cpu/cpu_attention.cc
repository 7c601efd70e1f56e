// The attention phase: work units of all slices and key/value heads, taken by whichever lane is free.
#include "backend/cpu/cpu_operations.h"

namespace skipjack {

bool CpuOperations::AttentionQuantises() const {
  return group_ * config_.head_dim % kernels::kBlockColumns == 0;
}

void CpuOperations::Attention(std::int32_t layer) {
  const std::span<const AttentionUnit> units = state_.layout().units();
  const auto items = static_cast<std::int32_t>(units.size()) * config_.kv_heads;
  std::atomic<std::int32_t>& next = state_.next_item(layer);
  for (std::int32_t item = next.fetch_add(1, std::memory_order_relaxed); item < items && !MustStop();
       item = next.fetch_add(1, std::memory_order_relaxed)) {
    AttendUnit(layer, units[static_cast<std::size_t>(item / config_.kv_heads)], item % config_.kv_heads);
  }
  Barrier();
}

void CpuOperations::AttendUnit(std::int32_t layer, const AttentionUnit& unit, std::int32_t kv_head) {
  const KvGeometry& kv = state_.kv();
  const std::int64_t first_column = std::int64_t{kv_head} * group_ * config_.head_dim;
  kernels::AttentionItem item;
  item.query = state_.query.FloatRow(unit.first_row) + first_column;
  item.query_stride = state_.query.float_stride();
  item.output = state_.attended.FloatRow(unit.first_row) + first_column;
  item.output_stride = state_.attended.float_stride();
  item.tokens = unit.tokens;
  item.group = group_;
  item.head_dim = config_.head_dim;
  item.position = unit.position;
  item.keys = state_.pool() + kv.KeyOffset(layer, kv_head);
  item.values = state_.pool() + kv.ValueOffset(layer, kv_head);
  item.block_stride = kv.block_bytes();
  item.block_table = state_.layout().slices()[static_cast<std::size_t>(unit.slice)].block_table.data();
  item.block_tokens = kv.block_tokens;
  item.first_chunk = unit.first_chunk;
  item.end_chunk = unit.end_chunk;
  item.stop = state_.stop();
  if (unit.split >= 0) {
    const AttentionSplit& split = state_.layout().splits()[static_cast<std::size_t>(unit.split)];
    item.partial = state_.partials + split.partial_offset + split.partial_stride * kv_head;
  }

  switch (kv_dtype_) {
    case KvDType::kBF16:
      kernels_.floats->attention.attend_bf16(item, scratch_.attention);
      break;
    case KvDType::kF16:
      kernels_.floats->attention.attend_f16(item, scratch_.attention);
      break;
    default:
      kernels_.floats->attention.attend_f32(item, scratch_.attention);
      break;
  }
  if (unit.split >= 0) {
    // Acquire and release: whoever takes the count to zero sees all pieces.
    std::atomic<std::int32_t>& left = state_.pieces_left(unit.split, kv_head);
    if (left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    left.store(state_.layout().splits()[static_cast<std::size_t>(unit.split)].pieces,
               std::memory_order_relaxed);
    kernels_.floats->attention.merge_partials(item, scratch_.attention);
  }
  if (!AttentionQuantises()) return;
  for (std::int32_t token = 0; token < unit.tokens; ++token) {
    const std::int64_t row = unit.first_row + token;
    Quantise(state_.attended.FloatRow(row) + first_column, first_column,
             std::int64_t{group_} * config_.head_dim, state_.kinds(layer).attention_output, state_.attended,
             row);
  }
}

}  // namespace skipjack
