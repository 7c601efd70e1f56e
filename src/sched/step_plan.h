// What one step computes, as a value: it can be printed, hashed, logged, replayed and sent to ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/block_copy.h"
#include "base/status.h"
#include "base/types.h"

namespace skipjack {

// "Compute these tokens of this sequence". There are no prefill and decode phases: a slice is a chunk of a
// prompt, one token, or several.
struct Slice {
  SequenceId sequence = 0;
  std::int32_t position = 0;      // of the first token; all before it are in the KV cache
  std::int32_t token_offset = 0;  // into StepPlan::tokens
  std::int32_t token_count = 0;
  std::int32_t table_offset = 0;  // into StepPlan::block_tables
  std::int32_t table_count = 0;
  bool sample = false;  // the last token's logits choose the sequence's next token

  friend bool operator==(const Slice&, const Slice&) = default;
};

// Why a sequence loses its KV: somebody who goes first (by what), the growth of those who run, or a copy from
// a lower tier that failed.
enum class PreemptionCause : std::uint8_t { kPriority, kDeadline, kPolicy, kGrowth, kLostKv };
inline constexpr std::size_t kPreemptionCauses = 5;

// "priority", "deadline", "policy", "growth", "lost_kv".
std::string_view PreemptionCauseName(PreemptionCause cause);

// A sequence that lost its KV in this plan and will be recomputed.
struct Preemption {
  SequenceId sequence = 0;
  std::int32_t tokens_lost = 0;
  PreemptionCause cause = PreemptionCause::kPolicy;
  SequenceId by = 0;  // who goes first, or who had to grow; 0: nobody else

  friend bool operator==(const Preemption&, const Preemption&) = default;
};

// Flat and reused from step to step: Clear() keeps the capacity.
struct StepPlan {
  std::uint64_t step = 0;
  std::vector<Slice> slices;
  std::vector<TokenId> tokens;
  std::vector<BlockId> block_tables;
  std::vector<Preemption> preempted;
  std::vector<BlockCopy> copies_before;  // made, in order, before the step computes
  std::vector<BlockCopy> copies_beside;  // made while it computes; of blocks that it does not touch

  // A plan may have copies alone.
  bool empty() const { return slices.empty() && copies_before.empty() && copies_beside.empty(); }
  void Clear();
  std::uint64_t Hash() const;    // over everything, the same on every machine
  std::string ToString() const;  // multi-line; without token ids, which are the user's text

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

// What became of one slice. Slices that did not sample need no outcome unless they failed.
struct SliceOutcome {
  SequenceId sequence = 0;
  TokenId token = 0;      // the sampled token, appended to the sequence
  bool finished = false;  // the engine ended the request: release everything
  // With `finished`: the values computed for this sequence are not to be trusted (non-finite logits). None of
  // its blocks stays in the prefix cache.
  bool tainted = false;
};

struct StepResult {
  std::uint64_t step = 0;
  bool failed = false;  // the step did not take effect: none of its KV may be used. The next plan repeats it
  // Likewise, because it was interrupted: the next plan is made freely, with whoever came since. Nothing is
  // learnt.
  bool dropped = false;
  std::vector<SliceOutcome> outcomes = {};
  // Of the plan's copies, the targets of those that failed; only copies from or to disk fail alone.
  std::vector<BlockId> failed_copies = {};
  // What the plan's copies took: those between device and host, and those with a disk.
  double host_copy_seconds = 0;
  double disk_copy_seconds = 0;
};

}  // namespace skipjack
