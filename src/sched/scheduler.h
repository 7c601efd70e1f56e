// Decides what each step computes. Pure: no I/O, no wall clock, no backend; the same object runs in
// production and in the simulator. Not thread-safe: one thread (the engine's step loop) owns it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/block_copy.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "kv/swap_counts.h"
#include "sched/explanation.h"
#include "sched/latency_model.h"
#include "sched/step_plan.h"

namespace skipjack {

enum class PriorityClass : std::uint8_t { kRealtime, kInteractive, kBatch };

// Knobs of the policies that have them.
struct PolicySettings {
  // mlfq, index: the first queue's quantum. 0: the minimum iteration time, as learnt.
  Duration quantum{};
  // mlfq, and index as long as it knows nothing: who was not served for so long goes to the first queue. 0:
  // never.
  Duration starvation_bound = std::chrono::seconds(3);
  // index: who was not served for so long goes first until it ends, as far as a fifth of the seats and of the
  // KV pool lets them. 0: never.
  Duration ageing_bound = std::chrono::seconds(120);
  // index: whoever waits must be ahead by this part of its rank to preempt.
  double hysteresis = 0.3;
  // index: who has generated this part of its expected length is not preempted.
  double protected_part = 0.8;
};

// What becomes of the KV of a preempted sequence where there is host memory or a disk for it. It always stays
// in the device as long as nobody needs the space.
enum class SwapMode : std::uint8_t {
  kRecompute,  // it is lost and computed again
  kReactive,   // it is copied out, and back in, when the space or the KV is needed: the step waits
  kProactive,  // it is copied ahead of need, beside the steps
};

struct SchedulerConfig {
  std::string policy = "fcfs";  // request, orca, fcfs, mlfq, index
  PolicySettings settings = {};
  // Of the time, what may go into computing again what preemptions lost. Preemptions within a priority class
  // pause beyond it. 1: no limit.
  double max_lost_part = 0.02;
  // Nobody is admitted if those who run are expected to outgrow the pool with it, by what answers like theirs
  // got. Off: one more block for each is enough.
  bool future_admission = true;
  bool tenant_fairness = false;  // the tenant that got least service goes first
  // The longest a step should take while anybody decodes, as predicted: prompt chunks are cut to fit. 0: they
  // are cut by max_batch_tokens alone.
  Duration token_gap_target{};
  LatencyCoefficients latency = {};     // what an earlier run learnt, see Scheduler::Latency()
  std::int32_t max_batch_tokens = 512;  // token budget of one step; decoders first, then prompt chunks
  std::int32_t max_sequences = 32;      // slices of one step, and sequences that hold KV
  std::int32_t max_queued = 1024;       // waiting sequences beyond which Submit refuses
  std::int32_t block_tokens = 16;
  std::int32_t kv_blocks = 0;
  std::int32_t host_blocks = 0;  // where KV is kept that the device has no room for
  std::int32_t disk_blocks = 0;  // where it goes from there
  SwapMode swap = SwapMode::kProactive;
  std::int32_t context_length = 0;
  bool prefix_cache = true;

  TierSizes tiers() const { return {kv_blocks, host_blocks, disk_blocks}; }
};

// What Submit() refuses for ever: an empty prompt, max_tokens below 1, prompt + max_tokens over the context
// length, or more blocks than the pool has (InvalidArgument, both numbers named). Pure arithmetic over a
// created scheduler's config: the engine calls it on the submitter's thread, Submit() on the loop's.
Status CheckFits(const SchedulerConfig& config, std::int64_t prompt_tokens, std::int64_t max_tokens);

struct SubmitRequest {
  SequenceId sequence = 0;
  std::vector<TokenId> prompt = {};
  std::int32_t max_tokens = 0;
  std::string cache_salt = {};  // the server's, from the tenant: prefixes are shared only within one salt
  std::string tenant = {};
  PriorityClass priority = PriorityClass::kInteractive;
  std::optional<TimePoint> deadline = {};
  TimePoint arrival = {};
};

// What is known of one sequence, for timings and Status.
struct SequenceState {
  enum class Phase : std::uint8_t { kWaiting, kRunning };
  Phase phase = Phase::kWaiting;
  std::int32_t prompt_tokens = 0;
  std::int32_t generated_tokens = 0;
  std::int32_t computed_tokens = 0;
  std::int32_t cached_tokens = 0;  // prompt tokens taken from the prefix cache at first admission
  std::int32_t preemptions = 0;
  std::int64_t level = 0;      // the policy's queue
  TimePoint level_since = {};  // when it came there
};

// Queues that statistics tell apart: the last one stands for itself and all behind it.
inline constexpr std::size_t kLevelBands = 16;

// Computed from state whenever asked.
struct SchedulerStats {
  std::int32_t waiting = 0;
  std::int32_t running = 0;
  std::int32_t swapped = 0;
  std::int32_t blocks_total = 0;
  std::int32_t blocks_used = 0;    // referenced by sequences
  std::int32_t blocks_cached = 0;  // unreferenced, kept for prefix hits; reclaimable
  std::int32_t blocks_free = 0;
  std::int32_t host_blocks_total = 0;
  std::int32_t host_blocks_free = 0;
  std::int32_t disk_blocks_total = 0;
  std::int32_t disk_blocks_free = 0;
  // By band of level, see Policy::BandOf.
  std::array<std::int32_t, kLevelBands> waiting_by_level = {};
  std::array<std::int32_t, kLevelBands> running_by_level = {};
  // Counters since start.
  SwapCounts swap = {};
  std::uint64_t preemptions = 0;
  std::array<std::uint64_t, kPreemptionCauses> preemptions_by_cause = {};  // add up to `preemptions`
  std::uint64_t promotions = 0;  // sequences that went ahead because they had waited too long
  std::uint64_t demotions = 0;   // times a sequence sank to a deeper level
  std::uint64_t recomputed_tokens = 0;
  double restoring_seconds = 0;  // of the steps' time that those took, by what was learnt of step times
  std::uint64_t prefix_queries_tokens = 0;  // prompt tokens looked up at first admission
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t faults = 0;  // wrong uses of KV blocks and illegal changes of phase: always 0, or a defect
};

class Scheduler {
 public:
  // Refuses an unknown policy by name (listing the known ones) and inconsistent numbers.
  static Result<std::unique_ptr<Scheduler>> Create(const SchedulerConfig& config);
  virtual ~Scheduler() = default;

  // InvalidArgument for what could never be: an empty prompt, prompt + max_tokens over the context length, or
  // more blocks than the pool has (both numbers are named). ResourceExhausted when max_queued sequences
  // already wait. AlreadyExists for an id that is still scheduled. A refused request leaves nothing behind.
  virtual Status Submit(SubmitRequest request) = 0;

  // The sequence is gone and its blocks are free; unknown ids are ignored. If the sequence is in the plan in
  // flight, its blocks stay put until that step's Complete().
  virtual void Cancel(SequenceId sequence) = 0;

  // Fills `plan` (cleared first) with the next step; empty when there is nothing to do. Decoders come first,
  // then prompt chunks within the token budget. When blocks run out the last in order loses its KV and is
  // recomputed; the first in order always makes progress. At most one plan is in flight: Complete() follows
  // each non-empty Plan, and until then further plans are empty. After a failed step the next plan has the
  // same slices again, less those of sequences cancelled since.
  virtual void Plan(TimePoint now, StepPlan* plan) = 0;

  // The step ended. Blocks it filled become visible as prefixes only now. A result for any other step than
  // the one in flight is ignored. A sequence ends when its outcome says so, or with its max_tokens-th token.
  // A slice that samples but has no outcome is planned again for its last token. After a dropped step nobody
  // has advanced and nobody was served.
  virtual void Complete(const StepResult& result, TimePoint now) = 0;

  virtual std::optional<SequenceState> Find(SequenceId sequence) const = 0;
  // None for an unknown one. Reasons are those that the last plan had. O(log waiting) and a bounded walk.
  virtual std::optional<SequenceExplanation> Explain(SequenceId sequence, TimePoint now) const = 0;
  // Of those who wait, the one that goes first.
  virtual std::optional<SequenceId> FirstWaiting() const = 0;
  virtual SchedulerStats Stats() const = 0;
  // What steps take, as learnt so far; all 0 before anything was learnt.
  virtual LatencyCoefficients Latency() const = 0;
  // What the plan in flight is predicted to take; none where nothing was learnt or none is in flight.
  virtual std::optional<Duration> ExpectedTime() const = 0;
  // Whether a newcomer that goes first can be in the next plan. False where batches are closed (policy
  // `request`).
  virtual bool admits_between_steps() const = 0;
  // Multi-line dump of queues, running sequences and blocks, for the watchdog.
  virtual std::string DebugString() const = 0;
};

}  // namespace skipjack
