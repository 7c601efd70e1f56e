// One sequence on its way through the scheduler.
//
//              admitted              prompt computed
//   kWaiting ───────────► kPrefilling ───────────► kDecoding
//                          ▲       │                  │
//                 admitted │       │ preempted        │ preempted
//                          │       ▼                  │
//                          └── kPreempted ◄───────────┘
//
//   every phase ──(ended by the engine, cancelled, max_tokens reached)──► kFinished
//
// kWaiting and kPreempted hold no blocks; what a preempted one has computed is found again as far as it is
// still in some tier. kPrefilling holds the blocks of all tokens known so far and
// computes them in chunks, the last of which samples. kDecoding has exactly one token left to compute. A
// preempted sequence comes back through kPrefilling and computes its generated tokens again along with the
// prompt.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "kv/block_table.h"
#include "sched/fair_share.h"
#include "sched/policy.h"
#include "sched/scheduler.h"

namespace skipjack {

enum class SequencePhase : std::uint8_t { kWaiting, kPrefilling, kDecoding, kPreempted, kFinished };

std::string_view SequencePhaseName(SequencePhase phase);

// Owned by the scheduler; plain data but for the phase, which has one way to change.
struct Sequence {
  Sequence(SubmitRequest request, std::uint64_t ticket, BlockTable blocks);

  const SequenceId id;
  const PriorityClass priority;
  const std::uint64_t ticket;
  const TimePoint arrival;
  const std::optional<TimePoint> deadline;
  const std::string tenant;
  const std::int32_t prompt_tokens;
  const std::int32_t max_tokens;

  std::vector<TokenId> tokens;  // the prompt, then what was generated
  BlockTable table;
  std::int32_t max_blocks = 0;     // for all tokens but the last, which is never fed back
  std::int32_t computed = 0;       // leading tokens whose KV is in the table
  std::int32_t most_computed = 0;  // the highest `computed` ever was: what lies below is work done before
  std::int32_t scheduled = 0;      // tokens from `computed` on that the plan in flight computes
  std::int32_t cached_tokens = 0;  // found in the prefix cache at first admission
  std::int32_t preemptions = 0;
  std::int32_t evictions = 0;      // preemptions because others had to grow, not because somebody went first
  std::uint64_t preempted_in = 0;  // the step that took its KV last; 0: none did
  bool admitted_before = false;

  // What its place depends on; see SequenceSnapshot.
  LengthModel::ClassId length_class = LengthModel::kAll;
  Duration expected_prefill{};
  Duration attained{};
  TimePoint last_served;  // when its last step ended; its arrival before
  std::int32_t promotions = 0;
  bool promoted = false;
  Duration promoted_until = {};      // what it will have attained when that ends
  std::int32_t promoted_blocks = 0;  // that it needed when it was promoted
  bool late = false;
  std::int64_t share = 0;
  double expected_service = 0;  // for FairShare, as long as it has not started
  std::optional<FairShare::Handle> share_of;
  bool loading = false;       // running, and some of its KV arrives with the plan in flight
  std::int32_t resident = 0;  // while preempted: its blocks that lie in the device, as far as is known
  std::int32_t swapped = 0;   // while preempted: those that lie in lower tiers
  double lost_seconds = 0;    // booked as lost at its last preemption, while it waits
  std::optional<TimePoint> promote_at;  // while it waits: when it is looked at for having waited too long
  std::optional<TimePoint> late_at;     // while it waits: when its deadline will be out of reach

  bool ranked = false;
  Rank rank;
  TimePoint level_since;      // when it came to its level
  std::uint8_t band = 0;      // of its level, see Policy::BandOf
  WaitNote wait;              // what the last plan that looked at it found
  std::uint64_t wait_in = 0;  // which plan that was
  std::optional<PreemptionNote> preempted;
  const SliceOutcome* outcome = nullptr;  // while a step is being completed

  SequencePhase phase() const { return phase_; }
  // The only way the phase changes. False, and nothing changes, for a move the picture above does not have.
  bool MoveTo(SequencePhase next);

  std::int32_t size() const { return static_cast<std::int32_t>(tokens.size()); }
  std::int32_t generated() const { return size() - prompt_tokens; }
  std::int32_t remaining() const {
    return size() - computed;
  }  // tokens to compute before the next can be sampled
  bool samples() const { return scheduled > 0 && scheduled == remaining(); }
  // Blocks it may still come to need.
  std::int32_t growth() const { return max_blocks - table.size(); }

  std::span<const TokenId> computed_tokens() const {
    return std::span(tokens).first(static_cast<std::size_t>(computed));
  }
  SequenceSnapshot Snapshot(TimePoint now) const;

 private:
  SequencePhase phase_ = SequencePhase::kWaiting;
};

}  // namespace skipjack
