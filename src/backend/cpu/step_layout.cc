#include "backend/cpu/step_layout.h"

#include <algorithm>
#include <string>

namespace skipjack {
namespace {

// Query rows (tokens times heads of a group) of one unit: enough to use each cached key tile several times,
// few enough to give every lane something.
constexpr std::int32_t kUnitRows = 24;
// A unit costs at least this many tokens' worth of work, however short its context.
constexpr std::int64_t kUnitOverheadTokens = 32;
// A unit that is more than this share of a lane's attention work is split.
constexpr std::int64_t kUnitsPerLane = 4;
// Sequences as long as the context whose partial results fit at once.
constexpr std::int64_t kLongSplits = 2;

std::int32_t CeilDiv(std::int32_t a, std::int32_t b) {
  return (a + b - 1) / b;
}

Status TooMany(const char* what, std::int64_t got, std::int64_t limit) {
  return Status::InvalidArgument(std::string("step has ") + std::to_string(got) + " " + what +
                                 ", the limit is " + std::to_string(limit));
}

}  // namespace

StepLayout::StepLayout(const StepLayoutLimits& limits, const KvGeometry& geometry)
    : limits_(limits), geometry_(geometry) {
  unit_tokens_ = std::max(1, kUnitRows / limits.group);
  max_splits_ = static_cast<std::int32_t>(kUnitsPerLane) * limits.lanes;
  const std::int64_t chunks = kernels::AttentionChunks(limits.runner.context_length);
  partial_floats_ = limits.lanes == 1 ? 0
                                      : kLongSplits * chunks * geometry.kv_heads * limits.group *
                                            kernels::PartialStride(geometry.head_dim);
  const auto tokens = static_cast<std::size_t>(limits.runner.max_step_tokens);
  positions_.reserve(tokens);
  slots_.reserve(tokens);
  logits_rows_.reserve(static_cast<std::size_t>(limits.runner.max_logits_rows));
  const auto max_units = static_cast<std::size_t>(limits.runner.max_step_tokens / unit_tokens_) +
                         static_cast<std::size_t>(limits.runner.max_slices);
  // Units above the target cost are fewer than max_splits_, and so are the pieces beyond one for each of
  // them.
  units_.reserve(max_units + 2 * static_cast<std::size_t>(max_splits_));
  splits_.reserve(static_cast<std::size_t>(max_splits_));
}

Status StepLayout::CheckSlice(const BatchSlice& slice, std::size_t index,
                              std::int32_t expected_offset) const {
  const std::string name = "slice " + std::to_string(index);
  const RunnerLimits& limits = limits_.runner;
  if (slice.token_count < 1 || slice.token_offset != expected_offset) {
    return Status::InvalidArgument(name + " starts at token " + std::to_string(slice.token_offset) +
                                   " and has " + std::to_string(slice.token_count) +
                                   " tokens; it must start at " + std::to_string(expected_offset) +
                                   " and have at least one");
  }
  if (slice.position < 0 || slice.position > limits.context_length - slice.token_count) {
    return Status::InvalidArgument(name + ": position " + std::to_string(slice.position) + " plus " +
                                   std::to_string(slice.token_count) + " tokens is outside the context of " +
                                   std::to_string(limits.context_length));
  }
  if (slice.logits_rows < 0 || slice.logits_rows > slice.token_count) {
    return Status::InvalidArgument(name + " asks for logits of " + std::to_string(slice.logits_rows) +
                                   " of its " + std::to_string(slice.token_count) + " tokens");
  }
  const std::int32_t blocks = CeilDiv(slice.position + slice.token_count, limits.block_tokens);
  if (slice.block_table.size() < static_cast<std::size_t>(blocks)) {
    return Status::InvalidArgument(name + " needs " + std::to_string(blocks) + " blocks, its table has " +
                                   std::to_string(slice.block_table.size()));
  }
  for (const BlockId block : slice.block_table.first(static_cast<std::size_t>(blocks))) {
    if (block < 0 || block >= limits.kv_blocks) {
      return Status::InvalidArgument(name + " names block " + std::to_string(block) + " of a pool of " +
                                     std::to_string(limits.kv_blocks));
    }
  }
  return {};
}

Status StepLayout::CheckBatch(const StepBatch& batch) const {
  const RunnerLimits& limits = limits_.runner;
  const auto tokens = static_cast<std::int64_t>(batch.tokens.size());
  const auto slices = static_cast<std::int64_t>(batch.slices.size());
  if (tokens > limits.max_step_tokens) return TooMany("tokens", tokens, limits.max_step_tokens);
  if (slices > limits.max_slices) return TooMany("slices", slices, limits.max_slices);
  if (slices == 0) return Status::InvalidArgument("step has no slices");

  std::int32_t offset = 0;
  std::int64_t logits_rows = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const BatchSlice& slice = batch.slices[i];
    if (slice.token_count > tokens - offset) {
      return Status::InvalidArgument("slice " + std::to_string(i) + " ends behind the step's " +
                                     std::to_string(tokens) + " tokens");
    }
    if (Status status = CheckSlice(slice, i, offset); !status.ok()) return status;
    offset += slice.token_count;
    logits_rows += slice.logits_rows;
  }
  if (offset != tokens) {
    return Status::InvalidArgument("step has " + std::to_string(tokens) + " tokens, its slices name " +
                                   std::to_string(offset));
  }
  if (logits_rows > limits.max_logits_rows)
    return TooMany("logits rows", logits_rows, limits.max_logits_rows);
  for (const TokenId token : batch.tokens) {
    if (token < 0 || token >= limits_.vocabulary) {
      return Status::InvalidArgument("token id " + std::to_string(token) + " is outside the vocabulary of " +
                                     std::to_string(limits_.vocabulary));
    }
  }
  return {};
}

Status StepLayout::Build(const StepBatch& batch) {
  if (Status status = CheckBatch(batch); !status.ok()) return status;
  batch_ = batch;
  positions_.clear();
  slots_.clear();
  logits_rows_.clear();
  units_.clear();
  splits_.clear();
  partial_used_ = 0;
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    PlaceTokens(batch.slices[i]);
    CutSlice(static_cast<std::int32_t>(i), batch.slices[i]);
  }
  SplitUnits();
  std::sort(units_.begin(), units_.end(),
            [](const AttentionUnit& a, const AttentionUnit& b) { return a.cost > b.cost; });
  return {};
}

void StepLayout::PlaceTokens(const BatchSlice& slice) {
  for (std::int32_t i = 0; i < slice.token_count; ++i) {
    const std::int32_t position = slice.position + i;
    positions_.push_back(position);
    slots_.push_back({slice.block_table[static_cast<std::size_t>(position / limits_.runner.block_tokens)],
                      position % limits_.runner.block_tokens});
    if (i >= slice.token_count - slice.logits_rows) logits_rows_.push_back(slice.token_offset + i);
  }
}

void StepLayout::CutSlice(std::int32_t index, const BatchSlice& slice) {
  for (std::int32_t done = 0; done < slice.token_count; done += unit_tokens_) {
    AttentionUnit unit;
    unit.slice = index;
    unit.first_row = slice.token_offset + done;
    unit.tokens = std::min(unit_tokens_, slice.token_count - done);
    unit.position = slice.position + done;
    unit.end_chunk = kernels::AttentionChunks(unit.position + unit.tokens);
    unit.cost = unit.tokens * (unit.position + unit.tokens + kUnitOverheadTokens);
    units_.push_back(unit);
  }
}

void StepLayout::SplitUnits() {
  if (limits_.lanes == 1) return;
  std::int64_t total = 0;
  for (const AttentionUnit& unit : units_) total += unit.cost;
  const std::int64_t target = total * geometry_.kv_heads / (limits_.lanes * kUnitsPerLane) + 1;
  const std::size_t whole_units = units_.size();
  for (std::size_t i = 0; i < whole_units; ++i) {
    if (units_[i].cost > target && units_[i].end_chunk > 1 && !SplitUnit(i, target)) return;
  }
}

bool StepLayout::SplitUnit(std::size_t index, std::int64_t target) {
  const AttentionUnit whole = units_[index];
  const std::int32_t chunks = whole.end_chunk;
  const std::int64_t stride =
      std::int64_t{chunks} * whole.tokens * limits_.group * kernels::PartialStride(geometry_.head_dim);
  const std::int64_t floats = stride * geometry_.kv_heads;
  if (splits_.size() == static_cast<std::size_t>(max_splits_) || partial_used_ + floats > partial_floats_)
    return false;

  const auto wanted = static_cast<std::int32_t>(std::min<std::int64_t>(whole.cost / target + 1, chunks));
  const std::int32_t chunks_per_piece = CeilDiv(chunks, wanted);
  AttentionSplit split;
  split.partial_offset = partial_used_;
  split.partial_stride = stride;
  for (std::int32_t first = 0; first < chunks; first += chunks_per_piece) {
    AttentionUnit piece = whole;
    piece.first_chunk = first;
    piece.end_chunk = std::min(first + chunks_per_piece, chunks);
    piece.split = static_cast<std::int32_t>(splits_.size());
    piece.cost = whole.cost * (piece.end_chunk - first) / chunks;
    if (first == 0) {
      units_[index] = piece;
    } else {
      units_.push_back(piece);
    }
    ++split.pieces;
  }
  splits_.push_back(split);
  partial_used_ += floats;
  return true;
}

}  // namespace skipjack
