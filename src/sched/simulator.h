// Drives a Scheduler through a list of requests on a manual clock, with a formula in place of a device.
//
// The loop is the engine's: take what has arrived, plan, "run" for as long as the cost model says, complete.
// Nothing in it depends on the machine or on wall-clock time, so a run repeats exactly, plan by plan.
#pragma once

#include <cstdint>
#include <functional>
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

// Seconds one step takes: a fixed part (reading the weights), a part per token, and a part per (token,
// attended position) pair. For one prompt of x tokens that is a + b x + c x^2 / 2, for n decoders a + b n + c
// (sum of contexts).
struct StepCostModel {
  double step_seconds = 0;
  double token_seconds = 0;
  double attention_seconds = 0;

  Duration Cost(const StepPlan& plan) const;
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
  Duration busy = {};
  TimePoint end = {};
};

class Simulator {
 public:
  // Both must outlive the simulator.
  Simulator(Scheduler* scheduler, ManualClock* clock, const StepCostModel& cost)
      : scheduler_(*scheduler), clock_(*clock), cost_(cost) {}

  // Called after every step.
  void SetObserver(std::function<void(const SimulatedStep&)> observer) { observer_ = std::move(observer); }

  // Runs until every request has ended. Requests are ordered by arrival. Internal when the scheduler plans
  // nothing although requests are left (with its dump): a scheduler must not stall.
  Result<SimulationReport> Run(std::span<const SimulatedRequest> requests);

 private:
  void Submit(const SimulatedRequest& request, SimulatedOutcome* outcome);
  void BookStart(TimePoint start);
  void BookStep();
  void BookToken(SequenceId sequence);

  Scheduler& scheduler_;
  ManualClock& clock_;
  const StepCostModel cost_;
  std::function<void(const SimulatedStep&)> observer_;

  struct Live {
    const SimulatedRequest* request = nullptr;
    SimulatedOutcome* outcome = nullptr;
    bool scheduled = false;
    TimePoint last_token = {};
  };
  std::unordered_map<SequenceId, Live> live_;
  SequenceId next_sequence_ = 1;
  SimulationReport report_;
  StepPlan plan_;
  StepResult result_;
};

// `count` arrival times of a Poisson process, the same on every machine for one seed.
std::vector<TimePoint> PoissonArrivals(double per_second, std::int32_t count, std::uint64_t seed);

}  // namespace skipjack
