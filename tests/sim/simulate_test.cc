// `skipjack simulate`: cost models, workloads, what is measured, and what policies gain.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "cli/simulate/cost_fit.h"
#include "cli/simulate/simulation.h"

namespace skipjack::cli {
namespace {

namespace fs = std::filesystem;

fs::path CostFolder() {
  return fs::path(SKIPJACK_FIXTURES) / "../../configs/cost";
}

CostFile Opt13b() {
  Result<CostFile> file = LoadCostFile((CostFolder() / "opt-13b-a100-40g.json").string());
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return *file;
}

SimulationOptions FastServe() {
  SimulationOptions options;
  options.cost = Opt13b();
  options.workload = {.name = "sharegpt-2k", .requests = 400};
  return options;
}

const SimPoint& PointOf(const SimulationResult& result, const std::string& policy) {
  return *std::ranges::find(result.points, policy, &SimPoint::policy);
}

TEST(CostFile, AllThatShipAreComplete) {
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(CostFolder())) {
    const Result<CostFile> file = LoadCostFile(entry.path().string());
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(file->name, entry.path().stem().string());
    ++files;
  }
  EXPECT_GE(files, 6);
}

LearntCosts Learnt() {
  return {.name = "fitted",
          .source = "a test",
          .latency =
              {.step = 0.01, .decoder = 0.002, .context = 3e-6, .prompt_token = 0.0005, .prompt_pair = 1e-6},
          .kv_tokens = 4096,
          .context_length = 2048,
          .kv_bytes_per_token = 1000,
          .host_bytes_per_second = 1e6};
}

// Decode steps take in the simulator what the daemon predicts; prompts too, but for what their slice costs.
TEST(CostFile, OneThatWasFittedCostsWhatWasLearnt) {
  const LearntCosts learnt = Learnt();
  const Result<std::string> json = MakeCostFile(learnt);
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  const Result<CostFile> file = ParseCostFile(*json, "fitted");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->name, "fitted");
  EXPECT_EQ(file->kv_tokens, 4096);
  EXPECT_EQ(file->context_length, 2048);
  EXPECT_DOUBLE_EQ(file->copy_token_seconds, 0.001) << "1,000 bytes at a million a second";

  StepPlan plan;
  plan.slices = {{.sequence = 1, .position = 99, .token_count = 1},
                 {.sequence = 2, .position = 299, .token_count = 1}};
  // 0.01 + 2 x 0.002 + 400 x 3e-6, by hand.
  EXPECT_NEAR(ToSeconds(file->cost.Cost(plan)), 0.0152, 1e-8);
  plan.slices = {{.sequence = 1, .position = 100, .token_count = 50}};
  // 0.01 + 50 x 0.0005 + (50 x 100 + 50 x 51 / 2) x 1e-6, by hand; the slice costs 0.0015 + 150 x 2e-6.
  EXPECT_NEAR(ToSeconds(file->cost.Cost(plan)), 0.041275 + 0.0018, 1e-8);
}

TEST(CostFile, NoneIsFittedToWhatWasNotLearnt) {
  LearntCosts learnt = Learnt();
  learnt.latency = {};
  EXPECT_EQ(MakeCostFile(learnt).status().code(), StatusCode::kFailedPrecondition);
  learnt.latency = {.step = 1, .decoder = 1};
  EXPECT_EQ(MakeCostFile(learnt).status().code(), StatusCode::kFailedPrecondition);
  learnt.latency = {.step = 0.01, .decoder = 0.001, .prompt_token = 0.005};
  const Result<CostFile> file = ParseCostFile(*MakeCostFile(learnt), "fitted");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->cost.slice_seconds, 0);
}

TEST(CostFile, RefusesWhatIsMissingUnknownOrWithoutASource) {
  const std::string good =
      R"({"name": "x", "step_seconds": 1, "token_seconds": 1, "attention_seconds": 0, "slice_seconds": 0,
      "context_seconds": 0, "kv_tokens": 100, "context_length": 10, "kv_bytes_per_token": 10,
      "host_bytes_per_second": 20, "sources": {"step_seconds": "s", "token_seconds": "s",
      "attention_seconds": "s", "slice_seconds": "s", "context_seconds": "s", "kv_tokens": "s",
      "context_length": "s", "kv_bytes_per_token": "s", "host_bytes_per_second": "s"}})";
  const Result<CostFile> file = ParseCostFile(good, "f");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_DOUBLE_EQ(file->copy_token_seconds, 0.5) << "10 bytes at 20 a second";
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return ParseCostFile(text, "f").status().message();
  };
  EXPECT_EQ(error("\"step_seconds\": 1", "\"step_second\": 1"), "f: 'step_seconds' must be a number");
  EXPECT_EQ(error("\"name\": \"x\"", "\"name\": \"x\", \"extra\": 1"), "f: 'extra' is not known");
  EXPECT_EQ(error("\"kv_tokens\": \"s\",", ""), "f: 'kv_tokens' has no entry in \"sources\"");
  EXPECT_EQ(error("\"host_bytes_per_second\": 20", "\"host_bytes_per_second\": 0.5"),
            "f: 'host_bytes_per_second' must lie in [1, 1000000000000000], got 0.5");
  EXPECT_EQ(error("{", ""), "f: not a JSON object");
}

TEST(SimWorkload, DependsOnTheSeedAndTheRateOnlySpreadsIt) {
  const SimWorkload options{.name = "classes", .requests = 500, .seed = 3, .rate = 2};
  SimWorkload faster = options;
  faster.rate = 4;
  const auto a = MakeSimWorkload(options);
  const auto b = MakeSimWorkload(faster);
  ASSERT_TRUE(a.ok() && b.ok());
  for (std::size_t i = 0; i < a->size(); ++i) {
    EXPECT_EQ((*a)[i].output_tokens, (*b)[i].output_tokens);
    EXPECT_EQ((*a)[i].tenant, (*b)[i].tenant);
    EXPECT_NEAR(ToSeconds((*a)[i].arrival - TimePoint()), 2 * ToSeconds((*b)[i].arrival - TimePoint()), 1e-6);
  }
  EXPECT_TRUE(std::ranges::is_sorted(*a, {}, &SimulatedRequest::arrival));
}

TEST(SimWorkload, TenantsTellLengthsInClassesAndNothingInHeavyTail) {
  const auto classes = MakeSimWorkload({.name = "classes", .requests = 20000});
  ASSERT_TRUE(classes.ok());
  std::map<std::string, std::pair<double, int>> logs;
  for (const SimulatedRequest& request : *classes) {
    logs[request.tenant].first += std::log(request.output_tokens);
    ++logs[request.tenant].second;
  }
  ASSERT_EQ(logs.size(), 8u);
  double last = 0;
  for (const auto& [tenant, sum] : logs) {
    EXPECT_NEAR(sum.second, 2500, 250);
    EXPECT_GT(sum.first / sum.second, last) << tenant;
    last = sum.first / sum.second;
  }
  const auto heavy = MakeSimWorkload({.name = "heavy-tail", .requests = 20000});
  ASSERT_TRUE(heavy.ok());
  double mean = 0;
  for (const SimulatedRequest& request : *heavy) {
    EXPECT_EQ(request.tenant, "");
    mean += request.output_tokens / 20000.0;
  }
  EXPECT_NEAR(mean, 285, 20);
}

TEST(SimWorkload, MaxTokensAreWhatWasAsked) {
  for (const char* asked : {"full", "pow2", "exact"}) {
    const auto requests = MakeSimWorkload({.requests = 300, .max_tokens = asked});
    ASSERT_TRUE(requests.ok());
    for (const SimulatedRequest& request : *requests) {
      EXPECT_GE(request.max_tokens, request.output_tokens);
      EXPECT_LE(request.prompt_tokens + request.max_tokens, 2048);
      if (std::string(asked) == "exact") {
        EXPECT_EQ(request.max_tokens, request.output_tokens);
      }
      if (std::string(asked) == "full") {
        EXPECT_EQ(request.prompt_tokens + request.max_tokens, 2048);
      }
    }
  }
  EXPECT_NE(MakeSimWorkload({.max_tokens = "half"}).status().message().find("full, pow2, exact"),
            std::string::npos);
  EXPECT_NE(MakeSimWorkload({.name = "nothing"}).status().message().find("heavy-tail"), std::string::npos);
}

TEST(SimWorkload, TracesAreReadStrictlyAndStretchedToTheRate) {
  const std::string path = ::testing::TempDir() + "/trace.jsonl";
  const auto read = [&](const std::string& text, std::optional<double> rate) {
    std::ofstream(path) << text;
    return MakeSimWorkload({.trace = path, .rate = rate});
  };
  const std::string two =
      "{\"arrival_s\": 5, \"prompt_tokens\": 7, \"max_tokens\": 9, \"output_tokens\": 3, \"tenant\": "
      "\"t\"}\n\n"
      "{\"arrival_s\": 3, \"prompt_tokens\": 1, \"max_tokens\": 2, \"priority\": 0}\n";
  const auto requests = read(two, 1);
  ASSERT_TRUE(requests.ok()) << requests.status().ToString();
  EXPECT_EQ((*requests)[0].output_tokens, 2);
  EXPECT_EQ((*requests)[0].priority, PriorityClass::kRealtime);
  EXPECT_EQ((*requests)[1].output_tokens, 3);
  EXPECT_EQ((*requests)[1].tenant, "t");
  EXPECT_EQ((*requests)[1].arrival - (*requests)[0].arrival, FromSeconds(1));
  const auto own = read(two, std::nullopt);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ((*own)[0].arrival, TimePoint());
  EXPECT_EQ((*own)[1].arrival, TimePoint(FromSeconds(2)));
  const auto together = read(two, 0);
  ASSERT_TRUE(together.ok());
  EXPECT_EQ((*together)[1].arrival, TimePoint());
  EXPECT_NE(read("{\"arrival_s\": 5}", 1).status().message().find(":1: 'prompt_tokens'"), std::string::npos);
  EXPECT_FALSE(
      read("{\"arrival_s\": 5, \"prompt_tokens\": 1, \"max_tokens\": 2, \"output_tokens\": 3}", 1).ok());
  EXPECT_FALSE(read("{\"arrival_s\": 5, \"prompt_tokens\": 1, \"max_tokens\": 2048}", 1).ok());
  EXPECT_FALSE(read("\n", 1).ok());
}

TEST(SimWorkload, WhatIsWrittenAsATraceIsReadBackTheSame) {
  const std::string path = ::testing::TempDir() + "/written.jsonl";
  const auto drawn =
      MakeSimWorkload({.name = "classes", .requests = 300, .seed = 9, .rate = 3, .max_tokens = "pow2"});
  ASSERT_TRUE(drawn.ok());
  std::ofstream file(path);
  for (const SimulatedRequest& request : *drawn) file << TraceLine(request) << "\n";
  file.close();
  const auto read = MakeSimWorkload({.trace = path});
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  ASSERT_EQ(read->size(), drawn->size());
  const TimePoint first = drawn->front().arrival;
  for (std::size_t i = 0; i < drawn->size(); ++i) {
    const SimulatedRequest& a = (*drawn)[i];
    const SimulatedRequest& b = (*read)[i];
    EXPECT_EQ(std::tie(a.prompt_tokens, a.max_tokens, a.output_tokens, a.tenant, a.priority),
              std::tie(b.prompt_tokens, b.max_tokens, b.output_tokens, b.tenant, b.priority));
    EXPECT_NEAR(ToSeconds(a.arrival - first), ToSeconds(b.arrival - TimePoint()), 1e-6);
  }
}

TEST(Summary, PercentilesAreValuesThatOccurred) {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const Quantity quantity = Summarize(values);
  EXPECT_DOUBLE_EQ(quantity.mean, 50.5);
  EXPECT_DOUBLE_EQ(quantity.p50, 50);
  EXPECT_DOUBLE_EQ(quantity.p95, 95);
  EXPECT_DOUBLE_EQ(quantity.p99, 99);
  EXPECT_DOUBLE_EQ(Summarize({3}).p99, 3);
}

// One request on an empty machine takes what AloneTime() says, whatever the policy.
TEST(Simulation, WithoutCompetitionNobodyIsSlower) {
  SimulationOptions options = FastServe();
  options.workload.requests = 40;
  options.workload.rate = 1e-5;
  options.warmup = 0;
  options.policies = SimulatedPolicies();
  const Result<SimulationResult> result = RunSimulation(options);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  ASSERT_EQ(result->points.size(), 6u);
  for (const SimPoint& point : result->points) {
    EXPECT_EQ(point.requests, 40u);
    EXPECT_NEAR(point.slowdown.mean, 1, 1e-6) << point.policy;
    EXPECT_NEAR(point.slowdown.p99, 1, 1e-6) << point.policy;
    EXPECT_EQ(point.preemptions_per_request, 0) << point.policy;
  }
}

TEST(Simulation, RepeatsExactly) {
  SimulationOptions options = FastServe();
  options.policies = {"index"};
  options.loads = {1.1};
  options.reference = "fcfs";
  const Result<SimulationResult> a = RunSimulation(options);
  const Result<SimulationResult> b = RunSimulation(options);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_GT(a->points[0].preemptions_per_request, 0);
  EXPECT_EQ(a->points[0].jct.mean, b->points[0].jct.mean);
  EXPECT_EQ(a->points[0].steps, b->points[0].steps);
}

TEST(Simulation, UnknownPoliciesAreNamed) {
  SimulationOptions options = FastServe();
  options.policies = {"orca", "lifo"};
  EXPECT_NE(RunSimulation(options).status().message().find("'lifo'"), std::string::npos);
  options.policies.clear();
  EXPECT_FALSE(RunSimulation(options).ok());
}

// FastServe's setting at the saturation of `orca`: its published gains are 5.1x in the mean and 6.4x in the
// tail.
TEST(Simulation, QueuesAndPagingBeatReservationAtItsSaturation) {
  SimulationOptions options = FastServe();
  options.workload.requests = 1000;
  options.policies = {"orca", "mlfq"};
  options.loads = {1.0};
  const Result<SimulationResult> result = RunSimulation(options);
  ASSERT_TRUE(result.ok());
  const SimPoint& orca = PointOf(*result, "orca");
  const SimPoint& mlfq = PointOf(*result, "mlfq");
  EXPECT_GE(orca.jct.mean / mlfq.jct.mean, 5.1);
  EXPECT_GE(orca.normalized.p95 / mlfq.normalized.p95, 6.4);
}

// Where requests say their lengths exactly and memory is no issue, the order is all there is to gain.
TEST(Simulation, LearningComesCloseToKnowing) {
  SimulationOptions options = FastServe();
  options.workload = {.name = "classes", .requests = 2000};
  options.reference = "fcfs";
  options.policies = {"fcfs", "index", "srpt-oracle"};
  options.loads = {0.9};
  const Result<SimulationResult> result = RunSimulation(options);
  ASSERT_TRUE(result.ok());
  EXPECT_LT(PointOf(*result, "index").jct.mean, PointOf(*result, "fcfs").jct.mean);
  EXPECT_LT(PointOf(*result, "index").jct.p50, PointOf(*result, "fcfs").jct.p50 / 2);
  EXPECT_LE(PointOf(*result, "srpt-oracle").jct.mean, PointOf(*result, "index").jct.mean);
}

TEST(Simulation, WorkLostToPreemptionStaysWithinItsPart) {
  SimulationOptions options = FastServe();
  options.workload = {.name = "heavy-tail", .requests = 2000};
  options.reference = "fcfs";
  options.policies = {"fcfs", "mlfq"};
  options.loads = {1.0};
  options.max_lost_part = 0.02;
  const Result<SimulationResult> result = RunSimulation(options);
  ASSERT_TRUE(result.ok());
  // What growth costs comes on top; fcfs loses nothing else.
  EXPECT_LE(PointOf(*result, "mlfq").restoring_part,
            0.02 + 0.01 + 4 * PointOf(*result, "fcfs").restoring_part);
}

// Preemptions as they were published, without a bound on the work that they may lose: what becomes of
// preempted KV decides. The same arrivals for all.
TEST(Simulation, CopyingAheadOfNeedIsWhatMakesUnboundedPreemptionAffordable) {
  SimulationOptions options = FastServe();
  options.workload = {.name = "heavy-tail", .requests = 1500};
  options.reference = "fcfs";
  options.policies = {"mlfq"};
  options.loads = {0.95};
  options.max_lost_part = 1;
  const Result<SimulationResult> computed = RunSimulation(options);
  ASSERT_TRUE(computed.ok());
  const SimPoint& recompute = computed->points[0];
  EXPECT_EQ(recompute.copied_tokens_per_request, 0);
  options.reference.clear();
  options.loads.clear();
  options.workload.rate = recompute.rate;
  options.swap = SwapMode::kReactive;
  const Result<SimulationResult> reactive = RunSimulation(options);
  ASSERT_TRUE(reactive.ok());
  EXPECT_LT(reactive->points[0].restoring_part, recompute.restoring_part);
  EXPECT_GT(reactive->points[0].copied_tokens_per_request, 0);
  options.swap = SwapMode::kProactive;
  const Result<SimulationResult> proactive = RunSimulation(options);
  ASSERT_TRUE(proactive.ok());
  EXPECT_LT(proactive->points[0].restoring_part, recompute.restoring_part);
  EXPECT_LT(proactive->points[0].copying_part, reactive->points[0].copying_part);
  EXPECT_LT(1.5 * proactive->points[0].jct.mean, recompute.jct.mean);
  EXPECT_LT(1.25 * proactive->points[0].jct.mean, reactive->points[0].jct.mean);
}

}  // namespace
}  // namespace skipjack::cli
