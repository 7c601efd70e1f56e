// The production scheduler under simulated load: what users feel (gaps, queueing, waste), from a formula and
// a seed.
#include "sched/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

namespace skipjack {
namespace {

// Roughly a 1B model on one GPU: 10 ms a step, 50 us a token, 1 ns a (token, position) pair.
constexpr StepCostModel kCost{.step_seconds = 0.010, .token_seconds = 50e-6, .attention_seconds = 1e-9};

SchedulerConfig Config() {
  SchedulerConfig config;
  config.max_batch_tokens = 512;
  config.max_sequences = 32;
  config.max_queued = 1000000;
  config.block_tokens = 16;
  config.kv_blocks = 8192;
  config.context_length = 8192;
  return config;
}

struct Simulation {
  SimulationReport report;
  std::vector<std::uint64_t> plans;  // hashes
  std::uint64_t preemptions = 0;
  std::uint64_t recomputed_tokens = 0;
};

Simulation Simulate(const SchedulerConfig& config, const StepCostModel& cost,
                    const std::vector<SimulatedRequest>& requests,
                    const std::function<void(const SimulatedStep&)>& observer = nullptr) {
  Simulation simulation;
  ManualClock clock;
  auto scheduler = Scheduler::Create(config);
  EXPECT_TRUE(scheduler.ok()) << scheduler.status().ToString();
  Simulator simulator(scheduler->get(), &clock, cost);
  simulator.SetObserver([&](const SimulatedStep& step) {
    simulation.plans.push_back(step.plan->Hash());
    if (observer) observer(step);
  });
  Result<SimulationReport> report = simulator.Run(requests);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  if (report.ok()) simulation.report = std::move(*report);
  const SchedulerStats stats = (*scheduler)->Stats();
  EXPECT_EQ(stats.blocks_used, 0);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  simulation.preemptions = stats.preemptions;
  simulation.recomputed_tokens = stats.recomputed_tokens;
  for (std::size_t i = 0; i < simulation.report.outcomes.size(); ++i) {
    EXPECT_EQ(simulation.report.outcomes[i].generated_tokens, requests[i].output_tokens);
  }
  return simulation;
}

// Log-normal lengths like those of chats: median 200 in, 120 out.
std::vector<SimulatedRequest> Chats(double per_second, std::int32_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto normal = [&random] {  // Box and Muller, the same everywhere
    const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(random() >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
  };
  std::vector<SimulatedRequest> requests;
  for (const TimePoint arrival : PoissonArrivals(per_second, count, seed + 1)) {
    SimulatedRequest request;
    request.arrival = arrival;
    request.prompt_tokens = std::clamp(static_cast<std::int32_t>(200 * std::exp(normal())), 1, 3000);
    request.output_tokens = std::clamp(static_cast<std::int32_t>(120 * std::exp(0.8 * normal())), 1, 1000);
    request.max_tokens = 2000;
    requests.push_back(request);
  }
  return requests;
}

Duration LargestGap(const Simulation& simulation) {
  Duration largest{};
  for (const SimulatedOutcome& outcome : simulation.report.outcomes) {
    largest = std::max(largest, outcome.largest_gap);
  }
  return largest;
}

TEST(PoissonArrivals, HaveTheRightRateAndSpread) {
  const std::vector<TimePoint> arrivals = PoissonArrivals(50, 40000, 5);
  ASSERT_TRUE(std::ranges::is_sorted(arrivals));
  const double mean = ToSeconds(arrivals.back().time_since_epoch()) / 40000;
  double square = 0;
  TimePoint previous;
  for (const TimePoint arrival : arrivals) {
    square += std::pow(ToSeconds(arrival - std::exchange(previous, arrival)) - mean, 2);
  }
  EXPECT_NEAR(mean, 0.02, 0.0004);
  EXPECT_NEAR(std::sqrt(square / 40000) / mean, 1.0, 0.03);
}

TEST(StepCostModel, AddsUpByHand) {
  const StepCostModel cost{.step_seconds = 1, .token_seconds = 0.5, .attention_seconds = 0.25};
  StepPlan plan;
  plan.tokens.resize(4);
  plan.slices = {{.position = 7, .token_count = 1}, {.position = 2, .token_count = 3}};
  // One token sees 8 positions, the others 3, 4 and 5.
  EXPECT_EQ(cost.Cost(plan), FromSeconds(1 + 4 * 0.5 + (8 + 3 + 4 + 5) * 0.25));
}

TEST(StepCostModel, ChargesSlicesAndContext) {
  const StepCostModel cost{
      .step_seconds = 1, .token_seconds = 0.5, .slice_seconds = 2, .context_seconds = 0.125};
  StepPlan plan;
  EXPECT_EQ(cost.Cost(plan), Duration());
  plan.slices = {{.position = 7, .token_count = 1}, {.position = 2, .token_count = 4}};
  EXPECT_EQ(cost.Cost(plan), FromSeconds(1 + 2 * 2 + 5 * 0.5 + (8 + 6) * 0.125));
}

// Blocks 0 to 9 are the device's.
TEST(StepCostModel, CopiesBesideAStepRunBothWaysAtOnce) {
  const StepCostModel cost{.copy_seconds = 0.25};
  StepPlan plan;
  plan.copies_before = {{1, 10}, {11, 1}};
  plan.copies_beside = {{2, 12}, {3, 13}, {14, 4}};
  EXPECT_EQ(cost.CopiesBefore(plan), FromSeconds(0.5));
  EXPECT_EQ(cost.CopiesBeside(plan, 10), FromSeconds(0.5));
}

// Request-level batching returns all answers of a batch at its end.
TEST(Simulator, AnswersMayReturnTogether) {
  SchedulerConfig config = Config();
  config.policy = "request";
  const StepCostModel cost{.step_seconds = 1, .token_seconds = 0, .attention_seconds = 0};
  std::vector<SimulatedRequest> requests(3);
  requests[0].output_tokens = 2;
  requests[1].output_tokens = 5;
  requests[2].output_tokens = 1;
  requests[2].arrival = TimePoint(FromSeconds(0.5));
  for (const bool together : {false, true}) {
    ManualClock clock;
    auto scheduler = Scheduler::Create(config);
    Simulator simulator(scheduler->get(), &clock, cost);
    if (together) simulator.ReturnAnswersTogether();
    const auto report = simulator.Run(requests);
    ASSERT_TRUE(report.ok());
    EXPECT_EQ(report->outcomes[0].finish, TimePoint(FromSeconds(together ? 5 : 2)));
    EXPECT_EQ(report->outcomes[1].finish, TimePoint(FromSeconds(5)));
    EXPECT_EQ(report->outcomes[2].finish, TimePoint(FromSeconds(6)));
  }
}

// One server, constant service time, Poisson arrivals: queueing theory knows the mean wait
// (Pollaczek-Khinchine).
TEST(Simulator, MatchesQueueingTheory) {
  SchedulerConfig config = Config();
  config.max_sequences = 1;
  const StepCostModel cost{.step_seconds = 0.010, .token_seconds = 0, .attention_seconds = 0};
  constexpr double kLoad = 0.7;
  std::vector<SimulatedRequest> requests;
  for (const TimePoint arrival : PoissonArrivals(kLoad / 0.010, 60000, 9)) {
    SimulatedRequest request;
    request.arrival = arrival;
    requests.push_back(request);
  }
  const Simulation simulation = Simulate(config, cost, requests);
  double wait = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    wait += ToSeconds(simulation.report.outcomes[i].first_scheduled - requests[i].arrival);
  }
  const double expected = kLoad * 0.010 / (2 * (1 - kLoad));
  EXPECT_NEAR(wait / 60000, expected, 0.05 * expected);
}

TEST(Simulator, RepeatsExactly) {
  SchedulerConfig config = Config();
  config.kv_blocks = 400;
  const std::vector<SimulatedRequest> requests = Chats(12, 300, 3);
  const Simulation first = Simulate(config, kCost, requests);
  const Simulation second = Simulate(config, kCost, requests);
  EXPECT_GT(first.preemptions, 0u);
  EXPECT_EQ(first.plans, second.plans);
  EXPECT_EQ(first.report.end, second.report.end);
}

TEST(Simulator, AStallIsReportedAndNotWaitedFor) {
  class Stalled final : public Scheduler {
   public:
    Status Submit(SubmitRequest) override { return Status::Ok(); }
    void Cancel(SequenceId) override {}
    void Plan(TimePoint, StepPlan* plan) override { plan->Clear(); }
    void Complete(const StepResult&, TimePoint) override {}
    std::optional<SequenceState> Find(SequenceId) const override { return std::nullopt; }
    std::optional<SequenceExplanation> Explain(SequenceId, TimePoint) const override { return std::nullopt; }
    std::optional<SequenceId> FirstWaiting() const override { return std::nullopt; }
    SchedulerStats Stats() const override { return {}; }
    LatencyCoefficients Latency() const override { return {}; }
    std::optional<Duration> ExpectedTime() const override { return std::nullopt; }
    bool admits_between_steps() const override { return true; }
    std::string DebugString() const override { return "the dump"; }
  };
  Stalled scheduler;
  ManualClock clock;
  const std::vector<SimulatedRequest> requests(1);
  const Status status = Simulator(&scheduler, &clock, kCost).Run(requests).status();
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("the dump"), std::string::npos);
}

TEST(Simulator, RefusedRequestsAreReported) {
  std::vector<SimulatedRequest> requests(2);
  requests[0].prompt_tokens = 9000;
  ManualClock clock;
  auto scheduler = Scheduler::Create(Config());
  const auto report = Simulator(scheduler->get(), &clock, kCost).Run(requests);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->outcomes[0].refusal.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(report->outcomes[1].generated_tokens, 1);
}

// No decoder waits longer than one full step, however long the prompts of others are.
TEST(Scheduling, ChunksBoundTheGapsOfDecoders) {
  std::vector<SimulatedRequest> requests = Chats(4, 100, 17);
  for (std::size_t i = 0; i < requests.size(); i += 5) requests[i].prompt_tokens = 6000;
  SchedulerConfig config = Config();
  const Simulation chunked = Simulate(config, kCost, requests);
  // A full step: 512 tokens, each of which sees at most the whole context.
  const double full_step = 0.010 + 512 * 50e-6 + 512 * 8192.0 * 1e-9;
  EXPECT_EQ(chunked.preemptions, 0u);
  EXPECT_LE(ToSeconds(LargestGap(chunked)), full_step);

  config.max_batch_tokens = 8192;
  const Simulation whole = Simulate(config, kCost, requests);
  EXPECT_GT(LargestGap(whole), 5 * LargestGap(chunked)) << "without chunks, a prompt stops everybody";
}

// The device never idles while anybody has work, and every decoder gets its token in every step.
TEST(Scheduling, NoStepIsMissed) {
  TimePoint end{};
  int idle_with_work = 0;
  int live = 0;
  Duration idle{};
  const std::vector<SimulatedRequest> requests = Chats(3, 400, 21);
  const Simulation simulation = Simulate(Config(), kCost, requests, [&](const SimulatedStep& step) {
    if (step.start > end) {
      idle += step.start - end;
      // Whoever is live now must have come just now.
      const bool arrived = std::ranges::any_of(
          requests, [&](const SimulatedRequest& request) { return request.arrival == step.start; });
      if (!arrived) ++idle_with_work;
    }
    end = step.end;
    live = std::max(live, step.live);
    EXPECT_FALSE(step.plan->empty());
  });
  EXPECT_EQ(idle_with_work, 0);
  EXPECT_EQ(simulation.report.busy + idle, simulation.report.end - TimePoint());
  EXPECT_GT(idle, Duration{}) << "the load leaves gaps, or nothing was tested";
  EXPECT_GT(live, 4);
  for (const SimulatedOutcome& outcome : simulation.report.outcomes) EXPECT_EQ(outcome.preemptions, 0);
}

// Iteration-level scheduling: a short request that comes late does not wait for the long one before it to
// end.
TEST(Scheduling, ShortRequestsJoinAndLeaveARunningBatch) {
  std::vector<SimulatedRequest> requests(2);
  requests[0].output_tokens = 1000;
  requests[1].arrival = TimePoint(FromSeconds(1));
  requests[1].output_tokens = 5;
  const Simulation simulation = Simulate(Config(), kCost, requests);
  const Duration taken = simulation.report.outcomes[1].finish - requests[1].arrival;
  EXPECT_LE(ToSeconds(taken), 6 * 0.0102) << "one step under way and five of its own";
  EXPECT_GT(ToSeconds(simulation.report.outcomes[0].finish - TimePoint()), 10.0);
}

TEST(Scheduling, RealtimeIsServedAtOnceWhateverTheBacklog) {
  std::vector<SimulatedRequest> requests;
  for (const TimePoint arrival : PoissonArrivals(40, 600, 2)) {  // several times what the device can do
    SimulatedRequest request;
    request.arrival = arrival;
    request.prompt_tokens = 300;
    request.output_tokens = 200;
    request.priority = PriorityClass::kBatch;
    requests.push_back(request);
  }
  for (std::size_t i = 100; i < requests.size(); i += 50) {
    requests[i].priority = PriorityClass::kRealtime;
    requests[i].output_tokens = 20;
  }
  const Simulation simulation = Simulate(Config(), kCost, requests);
  for (std::size_t i = 100; i < requests.size(); i += 50) {
    const SimulatedOutcome& outcome = simulation.report.outcomes[i];
    EXPECT_LE(ToSeconds(outcome.first_token - requests[i].arrival), 2 * 0.045)
        << "the step under way and its own";
    EXPECT_EQ(outcome.preemptions, 0);
    EXPECT_LE(ToSeconds(outcome.finish - requests[i].arrival), 22 * 0.045);
  }
}

// Requests that come together and share 1,024 tokens: those are computed once.
TEST(Scheduling, ASharedPrefixIsComputedOnce) {
  std::vector<SimulatedRequest> requests(64);
  for (SimulatedRequest& request : requests) {
    request.prefix = 7;
    request.prefix_tokens = 1024;
    request.prompt_tokens = 1024 + 40;
    request.output_tokens = 10;
  }
  const Simulation simulation = Simulate(Config(), kCost, requests);
  EXPECT_EQ(simulation.report.computed_tokens, 1024u + 64 * 40 + 64 * 9);
  SchedulerConfig config = Config();
  config.prefix_cache = false;
  const Simulation without = Simulate(config, kCost, requests);
  EXPECT_EQ(without.report.computed_tokens, 64u * 1064 + 64 * 9);
  EXPECT_LT(3 * (simulation.report.end - TimePoint()), without.report.end - TimePoint());
}

// 1.3 times more KV wanted than there is: some work is lost, but little.
TEST(Scheduling, ModerateOvercommitCostsLittle) {
  std::vector<SimulatedRequest> requests = Chats(1000, 200, 31);  // all at once
  SchedulerConfig config = Config();
  config.prefix_cache = false;  // every loss must be computed again
  const Simulation roomy = Simulate(config, kCost, requests);
  EXPECT_EQ(roomy.preemptions, 0u);
  // 32 sequences of some 270 + 85 tokens on average, on the way, are 710 blocks of 16.
  config.kv_blocks = 546;
  const Simulation tight = Simulate(config, kCost, requests);
  EXPECT_GT(tight.preemptions, 0u);
  const double slower = ToSeconds(tight.report.end - TimePoint()) / ToSeconds(roomy.report.end - TimePoint());
  EXPECT_LE(slower, 1 / 0.7) << tight.preemptions << " preemptions";
  EXPECT_LE(static_cast<double>(tight.recomputed_tokens),
            0.2 * static_cast<double>(tight.report.computed_tokens));
  RecordProperty("slowdown_percent", static_cast<int>(100 * slower));
  RecordProperty("recomputed_tokens", static_cast<int>(tight.recomputed_tokens));
}

// First come, first served: with equal classes, first tokens appear in the order of arrival, give or take
// those who arrive within one step of each other.
TEST(Scheduling, FirstTokensComeInOrderOfArrival) {
  SchedulerConfig config = Config();
  config.max_sequences = 8;
  const std::vector<SimulatedRequest> requests = Chats(6, 300, 41);
  const Simulation simulation = Simulate(config, kCost, requests);
  for (std::size_t i = 1; i < requests.size(); ++i) {
    EXPECT_LE(simulation.report.outcomes[i - 1].first_token, simulation.report.outcomes[i].first_token) << i;
  }
}

// A stream of short requests that never ends, at nine tenths of the capacity of one seat, and a long one that
// would wait for its end.
TEST(Scheduling, ALongRequestIsServedWithinTheBound) {
  const StepCostModel cost{.step_seconds = 0.010, .token_seconds = 0, .attention_seconds = 0};
  std::vector<SimulatedRequest> requests;
  for (const TimePoint arrival : PoissonArrivals(18, 4000, 3)) {
    SimulatedRequest request;
    request.arrival = arrival;
    request.output_tokens = 5;
    request.max_tokens = 500;
    requests.push_back(request);
  }
  requests[200].output_tokens = 400;
  const auto taken = [&](const char* policy, Duration bound) {
    SchedulerConfig config = Config();
    config.policy = policy;
    config.max_sequences = 1;
    config.settings.starvation_bound = bound;
    config.settings.ageing_bound = bound;
    const Simulation simulation = Simulate(config, cost, requests);
    return ToSeconds(simulation.report.outcomes[200].finish - requests[200].arrival);
  };
  // 4 s of work at a tenth of the seat's time take 40 s, give or take the noise of arrivals.
  EXPECT_GT(taken("mlfq", Duration(0)), 15);
  EXPECT_GT(taken("index", Duration(0)), 15);
  // Promoted after 2 s, the index policy lets it finish.
  EXPECT_LT(taken("index", std::chrono::seconds(2)), 15);
  EXPECT_LT(taken("mlfq", std::chrono::milliseconds(100)), taken("mlfq", Duration(0)));
}

}  // namespace
}  // namespace skipjack
