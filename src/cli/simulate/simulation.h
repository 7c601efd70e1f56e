// Policies under load: runs the production scheduler and KV manager on a manual clock and sums up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/simulate/cost_file.h"
#include "cli/simulate/sim_workload.h"
#include "cli/simulate/summary.h"
#include "sched/scheduler.h"

namespace skipjack::cli {

struct SimulationOptions {
  CostFile cost;
  SimWorkload workload;
  std::vector<std::string> policies;
  std::string reference;      // whose saturation is load 1; empty: the first policy's
  std::vector<double> loads;  // empty: the trace's own arrivals, or workload.rate
  std::int32_t seeds = 1;
  double warmup = 0.1;  // leaves out this part of the requests, at the front
  std::int32_t max_sequences = 16;
  std::int32_t max_batch_tokens = 2048;
  std::int32_t block_tokens = 16;
  std::int32_t kv_tokens = 0;  // 0: the cost model's
  // What becomes of preempted KV, and tokens that host memory holds of it; 0: sixteen times the device's.
  SwapMode swap = SwapMode::kRecompute;
  std::int32_t host_kv_tokens = 0;
  bool future_admission = true;
  PolicySettings settings;
  double max_lost_part = SchedulerConfig{}.max_lost_part;
  bool tenant_fairness = false;
  Duration token_gap_target{};
};

struct SimulationResult {
  double saturation = 0;  // requests per second of the reference; 0: not needed
  std::vector<SimPoint> points;
};

// Every policy there is, the simulator's own among them.
const std::vector<std::string>& SimulatedPolicies();

// Called before each point.
using SimProgress = std::function<void(const std::string& policy, double load, std::int32_t seed)>;

Result<SimulationResult> RunSimulation(const SimulationOptions& options,
                                       const SimProgress& progress = nullptr);

// The throughput of one policy that always has work: all requests are there from the start, and the rate is
// taken between the first tenth and the last tenth of the completions.
Result<double> Saturation(const SimulationOptions& options, const std::string& policy);

}  // namespace skipjack::cli
