// Who goes first, and who may push whom aside.
//
// A policy sees one sequence at a time, as a snapshot, and is a pure function of it: no state, no clock, no
// access to the scheduler. Policies that learn hold a const reference to what was learnt (Learnt) and read
// it; the scheduler teaches. The scheduler keeps its queues in the policy's order, asks again only for
// sequences that a step changed, and so needs O((running + changed) log waiting) per step whatever the
// policy.
//
// Above every policy stand, in this order:
//   1. the priority class: a higher class goes first and may always preempt a lower one
//   2. the deadline: who can no longer meet it goes behind all who can, and may always be preempted by them
//   3. fairness among tenants, where it is on: the tenant that got least goes first; nobody is preempted for
//   it
// Below the policy stands the submission order, which makes the order total and keeps a place for life.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "sched/latency_model.h"
#include "sched/length_model.h"
#include "sched/scheduler.h"

namespace skipjack {

// Smaller goes first: by level (queues of a multi-level policy), within a level by key.
struct PolicyKey {
  std::int64_t level = 0;
  std::int64_t key = 0;

  friend auto operator<=>(const PolicyKey&, const PolicyKey&) = default;
};

// What a policy may know of a sequence.
struct SequenceSnapshot {
  SequenceId sequence = 0;
  PriorityClass priority = PriorityClass::kInteractive;
  std::string_view tenant = {};
  TimePoint arrival = {};
  std::optional<TimePoint> deadline = {};
  std::int32_t prompt_tokens = 0;
  std::int32_t max_tokens = 0;
  std::int32_t generated_tokens = 0;
  std::int32_t computed_tokens = 0;  // tokens whose KV is in the pool now
  std::int32_t cached_tokens = 0;    // prompt tokens that were found in the prefix cache at first admission
  std::int32_t preemptions = 0;
  bool promoted = false;  // goes first, for having waited too long

  TimePoint observed_at = {};      // when this snapshot was taken
  Duration attained = {};          // wall time of the steps that served it
  Duration expected_prefill = {};  // of the prompt's uncached part, as predicted when it came; 0: unknown
  LengthModel::ClassId length_class = LengthModel::kAll;
  std::optional<PolicyKey> key = {};  // what the policy said last; none for a newcomer
};

// What a scheduler knows beyond the sequences. What is learnt changes only in Submit() and Complete().
struct Learnt {
  LatencyModel latency;
  LengthModel lengths;
  std::int32_t seats = 1;      // sequences that run at the same time
  std::int64_t kv_tokens = 0;  // that the pool holds; 0: as many as may be needed
};

// The whole order; smaller goes first.
struct Rank {
  PriorityClass priority = PriorityClass::kInteractive;
  bool late = false;       // the deadline can no longer be met
  std::int64_t share = 0;  // FairShare's tag; 0 where fairness is off
  PolicyKey policy = {};
  std::uint64_t ticket = 0;  // submission order

  friend auto operator<=>(const Rank&, const Rank&) = default;
};

// How sequences come in. The default is on-demand paging with chunked prompts.
struct AdmissionRules {
  bool reserves_max_tokens = false;  // room for prompt + max_tokens of all who run is set aside
  bool whole_prompts = false;        // prompts are split only where the first of a step does not fit
  bool closed_batches = false;       // nobody joins while anybody runs
};

// What becomes of a sequence that was not served for so long: it is promoted, which the policy sees in its
// snapshot. Only a fifth of the seats and of the KV pool may be held by promoted sequences (by one at least):
// beyond saturation everybody waits for longer than any bound, and were all promoted, all would be served in
// turn and end together at last.
struct Promotion {
  Duration after = {};
  std::optional<Duration> service = {};  // that it gets before it loses its new place; none: it keeps it
};

class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::string_view name() const = 0;

  virtual PolicyKey KeyOf(const SequenceSnapshot& sequence) const = 0;

  // Whether `waiting` may take the seat and the blocks of `running`. Asked only within one priority class and
  // only when `waiting` goes first. True only if the level of `waiting` is strictly lower, so that a
  // preempted sequence can never preempt back and equals never take turns.
  virtual bool MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const = 0;

  // Asked when a sequence begins to wait; none: it may wait for ever.
  virtual std::optional<Promotion> PromotionOf(const SequenceSnapshot& /*sequence*/) const {
    return std::nullopt;
  }

  // How long a sequence at the level `ahead` is expected to be served before it ends or comes to the level
  // `behind` itself, taking no notice of an early end. 0 where levels do not tell.
  virtual Duration ServiceBetween(std::int64_t /*ahead*/, std::int64_t /*behind*/) const {
    return Duration::zero();
  }

  virtual AdmissionRules admission() const { return {}; }

  // Where statistics count a level: 0 to kLevelBands - 1, others are taken as the nearest.
  virtual std::int64_t BandOf(std::int64_t level) const { return level; }
};

// Refuses an unknown name, listing the known ones. `learnt` must outlive the policy.
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, const PolicySettings& settings,
                                           const Learnt& learnt);

}  // namespace skipjack
