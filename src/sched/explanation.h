// Why a sequence waits, runs or was preempted, as the planner decided it. Plain values: made on demand, free
// of charge for a step beyond a few words that it notes where it decides.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/types.h"
#include "sched/step_plan.h"

namespace skipjack {

enum class PriorityClass : std::uint8_t;

enum class WaitReason : std::uint8_t {
  kNotReviewed,   // it came after the last plan was made
  kSeat,          // as many sequences run as may, and it may push none of them aside
  kBlocks,        // there are not enough KV blocks for it, and it may push nobody aside for more
  kBehind,        // somebody ahead of it could not be let in, and nobody overtakes
  kTokenBudget,   // those ahead of it took all tokens of the step
  kSharedPrefix,  // its prefix is being computed by another one: it takes that over in the next step
  kLostWork,      // it may push others aside by its place, but too much work was lost that way lately
  kClosedBatch,   // nobody joins while the batch runs
  kFuture,        // there are KV blocks, but those who run are expected to grow into them
  kCopies,        // KV blocks are being copied out for it; or its own are being copied in
  kGaveWay,       // it was preempted in the last plan; nobody comes back in the same one
};
inline constexpr std::size_t kWaitReasons = 11;

// "kv_blocks", "seat", ...: for labels and JSON.
std::string_view WaitReasonName(WaitReason reason);

// What a sequence waits for, as of the last plan that looked at it.
struct WaitNote {
  WaitReason reason = WaitReason::kNotReviewed;
  // kBehind: the first of those that could not be let in. kSharedPrefix: who computes the prefix.
  SequenceId other = 0;
  // kBehind: what that one waits for.
  WaitReason other_reason = WaitReason::kNotReviewed;
  // kBlocks and kLostWork, and kBehind where that is the other's reason: KV blocks that letting it (the
  // other) in takes, a reserve for the growth of those who run included, and how many there are. Both 0 where
  // it was a seat that was missing.
  std::int64_t blocks_wanted = 0;
  std::int64_t blocks_available = 0;

  friend bool operator==(const WaitNote&, const WaitNote&) = default;
};

// How a sequence lost its KV last.
struct PreemptionNote {
  PreemptionCause cause = PreemptionCause::kPolicy;
  SequenceId by = 0;          // who took its place or its block; 0: nobody else
  std::int64_t by_level = 0;  // of that one, then
  std::int32_t tokens_lost = 0;
  TimePoint at = {};

  friend bool operator==(const PreemptionNote&, const PreemptionNote&) = default;
};

struct SequenceExplanation {
  enum class Phase : std::uint8_t { kWaiting, kPreempted, kPrefilling, kDecoding };
  // Waiting sequences counted to find a place; beyond, `ahead` is a lower bound.
  static constexpr std::int32_t kMostCounted = 256;

  Phase phase = Phase::kWaiting;

  // Its place: a smaller one goes first, compared in this order.
  PriorityClass priority{};
  bool late = false;       // its deadline can no longer be met
  std::int64_t share = 0;  // its tenant's, in ranges; 0 where fairness among tenants is off
  std::int64_t level = 0;  // the policy's queue
  std::int64_t key = 0;    // within it

  // Of those who wait or are preempted: how many of them go before it.
  std::int32_t ahead = 0;
  bool ahead_is_more = false;  // counting was cut off
  std::optional<WaitNote> waits_for = {};
  std::optional<Duration> promoted_in = {};  // unless served before; not negative

  std::int32_t seats = 0;            // sequences that may run
  std::int32_t running = 0;          // that do
  std::int32_t scheduled = 0;        // its tokens in the plan in flight
  std::int32_t blocks = 0;           // KV blocks it holds
  std::int32_t computed_tokens = 0;  // whose KV it holds
  std::int32_t prompt_tokens = 0;
  std::int32_t generated_tokens = 0;
  std::int32_t max_tokens = 0;
  std::int32_t preemptions = 0;
  std::int32_t promotions = 0;  // for having waited too long
  Duration since_served = {};   // since its last step ended, or since it came
  std::optional<PreemptionNote> preempted = {};
  Duration since_preempted = {};
};

// "waiting", "preempted", "prefilling", "decoding".
std::string_view PhaseName(SequenceExplanation::Phase phase);

// One sentence: "waits for KV blocks: wants 12, 3 are available; 4 sequences go before it". `name_of` says
// what to call another sequence.
std::string ToSentence(const SequenceExplanation& explanation,
                       const std::function<std::string(SequenceId)>& name_of);

}  // namespace skipjack
