#include "cli/simulate/simulation.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "sched/srpt_oracle_policy.h"
#include "sched/step_scheduler.h"

namespace skipjack::cli {
namespace {

constexpr const char* kOracle = "srpt-oracle";

SchedulerConfig ConfigOf(const SimulationOptions& options, const std::string& policy) {
  SchedulerConfig config;
  config.policy = policy == kOracle ? "fcfs" : policy;
  config.settings = options.settings;
  config.max_lost_part = options.max_lost_part;
  config.tenant_fairness = options.tenant_fairness;
  config.token_gap_target = options.token_gap_target;
  config.max_batch_tokens = options.max_batch_tokens;
  config.max_sequences = options.max_sequences;
  config.max_queued = std::numeric_limits<std::int32_t>::max();
  config.block_tokens = options.block_tokens;
  const std::int32_t kv_tokens = options.kv_tokens > 0 ? options.kv_tokens : options.cost.kv_tokens;
  config.kv_blocks = kv_tokens / options.block_tokens;
  const std::int64_t host_tokens = options.host_kv_tokens > 0 ? options.host_kv_tokens : 16LL * kv_tokens;
  if (options.swap != SwapMode::kRecompute)
    config.host_blocks = static_cast<std::int32_t>(host_tokens / options.block_tokens);
  config.swap = options.swap;
  config.future_admission = options.future_admission;
  config.context_length = options.workload.context_length;
  return config;
}

struct Run {
  std::vector<SimulatedRequest> requests;
  SimulationReport report;
  SchedulerStats stats;
  double wall_seconds = 0;
};

Result<Run> RunOnce(const SimulationOptions& options, const std::string& policy,
                    const SimWorkload& workload) {
  Result<std::vector<SimulatedRequest>> requests = MakeSimWorkload(workload);
  if (!requests.ok()) return requests.status();
  Run run{.requests = std::move(*requests), .report = {}, .stats = {}};
  const SchedulerConfig config = ConfigOf(options, policy);
  Result<std::unique_ptr<Scheduler>> scheduler = Scheduler::Create(config);
  if (!scheduler.ok()) return scheduler.status();
  std::vector<std::int32_t> lengths;
  if (policy == kOracle) {
    for (const SimulatedRequest& request : run.requests) lengths.push_back(request.output_tokens);
    auto learnt = std::make_unique<Learnt>();
    auto oracle = std::make_unique<SrptOraclePolicy>(lengths, learnt->latency);
    *scheduler = std::make_unique<StepScheduler>(config, std::move(oracle), std::move(learnt));
  }
  StepCostModel cost = options.cost.cost;
  cost.copy_seconds = options.cost.copy_token_seconds * options.block_tokens;
  ManualClock clock;
  Simulator simulator(scheduler->get(), &clock, cost, config.kv_blocks);
  if (policy == "request") simulator.ReturnAnswersTogether();
  const auto start = std::chrono::steady_clock::now();
  Result<SimulationReport> report = simulator.Run(run.requests);
  if (!report.ok()) return report.status();
  run.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.report = std::move(*report);
  run.stats = (*scheduler)->Stats();
  return run;
}

Sample Measure(const SimulationOptions& options, const SimulatedRequest& request,
               const SimulatedOutcome& outcome) {
  Sample sample;
  sample.jct = ToSeconds(outcome.finish - request.arrival);
  sample.normalized = sample.jct / outcome.generated_tokens;
  sample.ttft = ToSeconds(outcome.first_token - request.arrival);
  sample.has_tpot = outcome.generated_tokens > 1;
  if (sample.has_tpot) sample.tpot = (sample.jct - sample.ttft) / (outcome.generated_tokens - 1);
  sample.slowdown = sample.jct / ToSeconds(options.cost.cost.AloneTime(
                                     request.prompt_tokens, request.output_tokens, options.max_batch_tokens));
  return sample;
}

// What the seeds of one point add up to.
struct Totals {
  std::vector<Sample> samples;
  double preemptions = 0;
  double promotions = 0;
  double restored = 0;
  double computed = 0;
  Duration restoring{};
  double copied_blocks = 0;
  Duration waiting{};
  Duration busy{};
  Duration end{};
  double output_tokens = 0;
  double requests = 0;
};

void Add(const SimulationOptions& options, const Run& run, Totals* totals, SimPoint* point) {
  const auto first = static_cast<std::size_t>(options.warmup * static_cast<double>(run.requests.size()));
  double jct = 0;
  std::size_t measured = 0;
  for (std::size_t i = 0; i < run.requests.size(); ++i) {
    const SimulatedOutcome& outcome = run.report.outcomes[i];
    if (!outcome.refusal.ok()) {
      ++point->refused;
      continue;
    }
    totals->preemptions += outcome.preemptions;
    totals->output_tokens += outcome.generated_tokens;
    totals->requests += 1;
    if (i < first) continue;
    totals->samples.push_back(Measure(options, run.requests[i], outcome));
    jct += totals->samples.back().jct;
    ++measured;
  }
  point->jct_mean_of_seeds.push_back(measured > 0 ? jct / static_cast<double>(measured) : 0);
  totals->promotions += static_cast<double>(run.stats.promotions);
  totals->restored += static_cast<double>(run.report.restored_tokens);
  totals->computed += static_cast<double>(run.report.computed_tokens);
  totals->restoring += run.report.restoring;
  totals->copied_blocks += static_cast<double>(run.report.copied_blocks);
  totals->waiting += run.report.waiting;
  totals->busy += run.report.busy;
  totals->end += run.report.end - TimePoint();
  point->steps += run.report.steps;
  point->wall_seconds += run.wall_seconds;
}

double ArrivalRate(const std::vector<SimulatedRequest>& requests) {
  const Duration span = requests.back().arrival - requests.front().arrival;
  return span > Duration::zero() ? static_cast<double>(requests.size() - 1) / ToSeconds(span) : 0;
}

Result<SimPoint> RunPoint(const SimulationOptions& options, const std::string& policy, double load,
                          std::optional<double> rate, const SimProgress& progress) {
  SimPoint point;
  point.policy = policy;
  point.load = load;
  point.rate = rate.value_or(0);
  Totals totals;
  for (std::int32_t seed = 0; seed < options.seeds; ++seed) {
    if (progress) progress(policy, load, seed);
    SimWorkload workload = options.workload;
    workload.seed += static_cast<std::uint64_t>(seed);
    workload.rate = rate;
    const Result<Run> run = RunOnce(options, policy, workload);
    if (!run.ok()) return run.status();
    if (!rate.has_value()) point.rate = ArrivalRate(run->requests);
    Add(options, *run, &totals, &point);
  }
  SummarizeSamples(totals.samples, &point);
  point.requests = totals.samples.size();
  const double requests = std::max(totals.requests, 1.0);
  point.preemptions_per_request = totals.preemptions / requests;
  point.promotions_per_request = totals.promotions / requests;
  point.copied_tokens_per_request = totals.copied_blocks * options.block_tokens / requests;
  point.restored_part = totals.computed > 0 ? totals.restored / totals.computed : 0;
  if (totals.busy > Duration::zero()) {
    point.restoring_part = ToSeconds(totals.restoring) / ToSeconds(totals.busy);
    point.copying_part = ToSeconds(totals.waiting) / ToSeconds(totals.busy);
    point.busy_part = ToSeconds(totals.busy) / ToSeconds(totals.end);
    point.output_tokens_per_second = totals.output_tokens / ToSeconds(totals.end);
  }
  return point;
}

}  // namespace

const std::vector<std::string>& SimulatedPolicies() {
  static const std::vector<std::string> kPolicies = {"request", "orca", "fcfs", "mlfq", "index", kOracle};
  return kPolicies;
}

Result<double> Saturation(const SimulationOptions& options, const std::string& policy) {
  constexpr std::int32_t kBacklog = 10000;
  constexpr std::uint64_t kSeed = 0x5a7;  // other requests than those that are measured
  SimWorkload workload = options.workload;
  workload.seed ^= kSeed;
  workload.rate = 0;
  workload.requests = kBacklog;
  const Result<Run> run = RunOnce(options, policy, workload);
  if (!run.ok()) return run.status();
  std::vector<TimePoint> finished;
  for (const SimulatedOutcome& outcome : run->report.outcomes) {
    if (outcome.refusal.ok()) finished.push_back(outcome.finish);
  }
  if (finished.size() < 20) return Status::InvalidArgument("too few requests to measure the saturation");
  std::ranges::sort(finished);
  const std::size_t low = finished.size() / 10;
  const std::size_t high = finished.size() - 1 - low;
  return static_cast<double>(high - low) / ToSeconds(finished[high] - finished[low]);
}

Result<SimulationResult> RunSimulation(const SimulationOptions& options, const SimProgress& progress) {
  if (options.policies.empty()) return Status::InvalidArgument("at least one policy is needed");
  for (const std::string& policy : options.policies) {
    if (std::ranges::find(SimulatedPolicies(), policy) != SimulatedPolicies().end()) continue;
    return Status::InvalidArgument("policy '" + policy +
                                   "' is unknown; known: request, orca, fcfs, mlfq, index, srpt-oracle");
  }
  SimulationResult result;
  std::vector<std::pair<double, std::optional<double>>> loads;  // and rates
  if (options.loads.empty()) {
    loads.emplace_back(0, options.workload.rate);
  } else {
    const Result<double> saturation =
        Saturation(options, options.reference.empty() ? options.policies.front() : options.reference);
    if (!saturation.ok()) return saturation.status();
    result.saturation = *saturation;
    for (const double load : options.loads) loads.emplace_back(load, load * *saturation);
  }
  for (const auto& [load, rate] : loads) {
    for (const std::string& policy : options.policies) {
      Result<SimPoint> point = RunPoint(options, policy, load, rate, progress);
      if (!point.ok()) return point.status();
      result.points.push_back(std::move(*point));
    }
  }
  return result;
}

}  // namespace skipjack::cli
