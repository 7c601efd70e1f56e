// Drives a Scheduler through a list of requests on a manual clock, with a formula in place of a device.
//
// The loop is the engine's: take what has arrived, plan, "run" for as long as the cost model says, complete.
// Nothing in it depends on the machine or on wall-clock time, so a run repeats exactly, plan by plan.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "sched/scheduler.h"
#include "sched/step_plan.h"

namespace skipjack {

// Seconds one step takes: a fixed part (reading the weights), a part per token, per (token, attended
// position) pair, per slice, and per position a slice reads from the KV cache. For one prompt of x tokens the
// first three are a + b x + c x^2 / 2, for n decoders a + b n + c (sum of contexts).
struct StepCostModel {
  double step_seconds = 0;
  double token_seconds = 0;
  double attention_seconds = 0;
  double slice_seconds = 0;
  double context_seconds = 0;
  double copy_seconds = 0;  // one KV block between device and host, one way

  // What the plan's slices take to compute; 0 without slices.
  Duration Cost(const StepPlan& plan) const;
  // Copies before the step add up. Those beside it run in both directions at the same time, and the step ends
  // no sooner than they do.
  Duration CopiesBefore(const StepPlan& plan) const;
  Duration CopiesBeside(const StepPlan& plan, std::int32_t device_blocks) const;
  // What of a step's time goes into computing `count` tokens from `position` on again.
  double RestoreSeconds(std::int32_t count, std::int32_t position) const;
  // From arrival to the last token on a machine that has nothing else to do. Steps hold at most
  // `max_batch_tokens` tokens.
  Duration AloneTime(std::int32_t prompt_tokens, std::int32_t output_tokens,
                     std::int32_t max_batch_tokens) const;
};

struct SimulatedRequest {
  TimePoint arrival = {};
  std::int32_t prompt_tokens = 1;
  std::int32_t output_tokens = 1;  // it ends after so many
  std::int32_t max_tokens = 0;     // what the client asks for; 0: output_tokens
  // The first prefix_tokens of the prompt are the same in all requests with this prefix; all else is unique.
  std::uint64_t prefix = 0;
  std::int32_t prefix_tokens = 0;
  PriorityClass priority = PriorityClass::kInteractive;
  std::string tenant = {};
};

struct SimulatedOutcome {
  Status refusal = {};  // not ok: Submit refused it, and the rest is empty
  TimePoint first_scheduled = {};
  TimePoint first_token = {};
  TimePoint finish = {};
  Duration largest_gap = {};  // between two tokens
  std::int32_t generated_tokens = 0;
  std::int32_t cached_tokens = 0;
  std::int32_t preemptions = 0;
};

struct SimulatedStep {
  TimePoint start = {};
  TimePoint end = {};
  std::int32_t live = 0;  // requests submitted and not ended, during the step
  const StepPlan* plan = nullptr;
};

struct SimulationReport {
  std::vector<SimulatedOutcome> outcomes;  // in the order of the requests
  std::uint64_t steps = 0;
  std::uint64_t computed_tokens = 0;  // of all slices, recomputed ones included
  std::uint64_t restored_tokens = 0;  // of these, tokens whose KV had been there before
  Duration restoring = {};            // what those cost
  std::uint64_t copied_blocks = 0;    // between tiers, in all directions
  Duration waiting = {};              // of `busy`, for copies: before a step, or longer than it
  Duration busy = {};
  TimePoint end = {};
};

class Simulator {
 public:
  // Both must outlive the simulator.
  // `device_blocks`: KV blocks of the device, as the scheduler numbers them; all by default.
  Simulator(Scheduler* scheduler, ManualClock* clock, const StepCostModel& cost,
            std::int32_t device_blocks = std::numeric_limits<std::int32_t>::max())
      : scheduler_(*scheduler), clock_(*clock), cost_(cost), device_blocks_(device_blocks) {}

  // All answers of a batch are returned when its last one is complete, as request-level batching does it: a
  // request finishes when the scheduler has nobody left running.
  void ReturnAnswersTogether() { together_ = true; }

  // Called after every step.
  void SetObserver(std::function<void(const SimulatedStep&)> observer) { observer_ = std::move(observer); }

  // Runs until every request has ended. Requests are ordered by arrival. Internal when the scheduler plans
  // nothing although requests are left (with its dump): a scheduler must not stall.
  Result<SimulationReport> Run(std::span<const SimulatedRequest> requests);

 private:
  void Submit(const SimulatedRequest& request, SimulatedOutcome* outcome);
  void BookStart(TimePoint start);
  void BookStep();

  Scheduler& scheduler_;
  ManualClock& clock_;
  const StepCostModel cost_;
  const std::int32_t device_blocks_;
  std::function<void(const SimulatedStep&)> observer_;

  struct Live {
    const SimulatedRequest* request = nullptr;
    SimulatedOutcome* outcome = nullptr;
    bool scheduled = false;
    std::int32_t most_computed = 0;
    TimePoint last_token = {};
  };

  void BookToken(SequenceId sequence, Live* live);
  void BookRestored();
  Duration TimeOf();

  std::unordered_map<SequenceId, Live> live_;
  SequenceId next_sequence_ = 1;
  bool together_ = false;
  std::vector<SimulatedOutcome*> held_;  // complete, and not returned yet
  std::vector<Live*> step_;              // of the plan's slices
  SimulationReport report_;
  StepPlan plan_;
  StepResult result_;
};

// `count` arrival times of a Poisson process, the same on every machine for one seed.
std::vector<TimePoint> PoissonArrivals(double per_second, std::int32_t count, std::uint64_t seed);

}  // namespace skipjack
