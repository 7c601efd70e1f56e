// Who goes first, and who may push whom aside.
//
// A policy sees one sequence at a time, as a snapshot, and is a pure function of it: no state, no clock, no
// access to the scheduler. Policies that learn (length histograms, latency models) hold a const reference to
// what was learnt and read it. The scheduler keeps its queues in the policy's order, asks again only for
// sequences that a step changed, and so needs O((running + changed) log waiting) per step whatever the
// policy.
//
// Above every policy stands the priority class: a higher class goes first and may always preempt a lower one.
// Below it stands the submission order, which makes the order total and keeps a place for life.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "sched/scheduler.h"

namespace skipjack {

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
};

// Smaller goes first: by level (queues of a multi-level policy), within a level by key.
struct PolicyKey {
  std::int64_t level = 0;
  std::int64_t key = 0;

  friend auto operator<=>(const PolicyKey&, const PolicyKey&) = default;
};

// The whole order; smaller goes first.
struct Rank {
  PriorityClass priority = PriorityClass::kInteractive;
  PolicyKey policy = {};
  std::uint64_t ticket = 0;  // submission order

  friend auto operator<=>(const Rank&, const Rank&) = default;
};

class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::string_view name() const = 0;

  virtual PolicyKey KeyOf(const SequenceSnapshot& sequence) const = 0;

  // Whether `waiting` may take the seat and the blocks of `running`. Asked only within one priority class and
  // only when `waiting` goes first by its key, so a preempted sequence can never preempt back.
  virtual bool MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const = 0;
};

// Refuses an unknown name, listing the known ones.
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name);

}  // namespace skipjack
