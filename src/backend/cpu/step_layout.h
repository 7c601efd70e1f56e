// What a step's batch means for the CPU engine: one flat list of tokens with positions and KV slots, the rows
// whose logits are wanted, and attention cut into work units. Rebuilt for every step, in memory reserved
// once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/kv_geometry.h"
#include "backend/model_runner.h"
#include "base/status.h"

namespace skipjack {

// Where a token's keys and values go.
struct KvSlot {
  BlockId block = 0;
  std::int32_t slot = 0;  // within the block
};

// Attention of a few consecutive tokens of one slice, for each key/value head alike, over chunks of its
// context.
struct AttentionUnit {
  std::int32_t slice = 0;
  std::int32_t first_row = 0;  // of the step's tokens
  std::int32_t tokens = 0;
  std::int32_t position = 0;  // of the first of them
  std::int32_t first_chunk = 0;
  std::int32_t end_chunk = 0;
  std::int32_t split = -1;  // index of the AttentionSplit this unit is a piece of
  std::int64_t cost = 0;    // score tiles, roughly
};

// A unit whose chunks are spread over several: their partial results are merged by whoever finishes last.
struct AttentionSplit {
  std::int32_t pieces = 0;
  std::int64_t partial_offset = 0;  // floats; one key/value head's partials follow another's
  std::int64_t partial_stride = 0;  // floats per key/value head
};

struct StepLayoutLimits {
  RunnerLimits runner;
  std::int32_t vocabulary = 0;
  std::int32_t group = 0;  // query heads per key/value head
  std::int32_t lanes = 0;
};

class StepLayout {
 public:
  StepLayout(const StepLayoutLimits& limits, const KvGeometry& geometry);

  // Checks the batch against the limits and lays it out. The spans of `batch` are used until the next
  // Build(). Allocates nothing unless it fails.
  Status Build(const StepBatch& batch);

  std::int32_t rows() const { return static_cast<std::int32_t>(batch_.tokens.size()); }
  std::span<const TokenId> tokens() const { return batch_.tokens; }
  std::span<const BatchSlice> slices() const { return batch_.slices; }
  std::span<const std::int32_t> positions() const { return positions_; }
  std::span<const KvSlot> slots() const { return slots_; }
  std::span<const std::int32_t> logits_rows() const { return logits_rows_; }

  // Most expensive first. Item i of the step is units()[i / kv_heads] for key/value head i % kv_heads.
  std::span<const AttentionUnit> units() const { return units_; }
  std::span<const AttentionSplit> splits() const { return splits_; }

  // Capacities that the caller reserves memory for.
  std::int64_t partial_floats() const { return partial_floats_; }
  std::int32_t max_splits() const { return max_splits_; }

 private:
  Status CheckBatch(const StepBatch& batch) const;
  Status CheckSlice(const BatchSlice& slice, std::size_t index, std::int32_t expected_offset) const;
  void PlaceTokens(const BatchSlice& slice);
  void CutSlice(std::int32_t index, const BatchSlice& slice);
  void SplitUnits();
  // Replaces the unit by pieces of about `target` cost if there is room; returns whether it did.
  bool SplitUnit(std::size_t index, std::int64_t target);

  const StepLayoutLimits limits_;
  const KvGeometry geometry_;
  std::int32_t unit_tokens_ = 1;
  std::int32_t max_splits_ = 0;
  std::int64_t partial_floats_ = 0;
  std::int64_t partial_used_ = 0;

  StepBatch batch_;
  std::vector<std::int32_t> positions_;
  std::vector<KvSlot> slots_;
  std::vector<std::int32_t> logits_rows_;
  std::vector<AttentionUnit> units_;
  std::vector<AttentionSplit> splits_;
};

}  // namespace skipjack
