// The baselines by hand, and what stands above every policy.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using testing::Range;
using testing::SchedulerHarness;

// 8 blocks of 4 tokens.
SchedulerConfig Config(const std::string& policy) {
  SchedulerConfig config;
  config.policy = policy;
  config.max_batch_tokens = 32;
  config.max_sequences = 4;
  config.block_tokens = 4;
  config.kv_blocks = 8;
  config.context_length = 32;
  return config;
}

void SubmitAll(SchedulerHarness* harness, int count, int prompt, int max_tokens) {
  for (SequenceId id = 1; id <= static_cast<SequenceId>(count); ++id) {
    ASSERT_TRUE(harness
                    ->Submit(id, Range(static_cast<TokenId>(100 * id), prompt), max_tokens,
                             {.arrival = static_cast<std::int64_t>(id)})
                    .ok());
  }
}

bool Runs(const SchedulerHarness& harness, SequenceId id) {
  return harness.SliceOf(id) != nullptr;
}

// 4 + 12 tokens need 4 blocks in the end: two sequences reserve the whole pool, although they use two blocks.
TEST(OrcaPolicy, ReservesMaxTokensAtAdmission) {
  SchedulerHarness harness(Config("orca"));
  SubmitAll(&harness, 3, 4, 12);
  harness.Step();
  EXPECT_EQ(harness.scheduler().Stats().running, 2);
  EXPECT_GE(harness.scheduler().Stats().blocks_free, 4);
  harness.Step([](std::vector<SliceOutcome>* outcomes) { outcomes->front().finished = true; });
  harness.Plan();
  EXPECT_TRUE(Runs(harness, 3)) << "joins as soon as somebody leaves";
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.scheduler().Stats().preemptions, 0u);

  SchedulerHarness paged(Config("fcfs"));
  SubmitAll(&paged, 3, 4, 12);
  paged.Step();
  EXPECT_EQ(paged.scheduler().Stats().running, 3);
  paged.Drain();
}

TEST(OrcaPolicy, NobodyPassesTheOneThatDoesNotFit) {
  SchedulerHarness harness(Config("orca"));
  ASSERT_TRUE(harness.Submit(1, Range(100, 4), 17).ok());  // 5 blocks
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 13).ok());  // 4
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 2).ok());   // 1
  harness.Step();
  EXPECT_TRUE(Runs(harness, 1));
  EXPECT_FALSE(Runs(harness, 2));
  EXPECT_FALSE(Runs(harness, 3));
  harness.Drain();
}

TEST(OrcaPolicy, PromptsStayWhole) {
  SchedulerConfig config = Config("orca");
  config.kv_blocks = 64;
  SchedulerHarness harness(config);
  SubmitAll(&harness, 3, 20, 2);
  harness.Plan();
  ASSERT_EQ(harness.plan().slices.size(), 1u) << "12 tokens of budget are left, and the second prompt has 20";
  EXPECT_EQ(harness.plan().slices[0].token_count, 20);
  harness.Complete();
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(2)->token_count, 20);
  EXPECT_EQ(harness.SliceOf(1)->token_count, 1);
  harness.Complete();
  harness.Drain();
}

// A prompt that fits into no step beside the decoders is split rather than starved.
TEST(OrcaPolicy, APromptThatIsFirstAndDoesNotFitIsSplit) {
  SchedulerConfig config = Config("orca");
  config.max_batch_tokens = 8;
  config.kv_blocks = 64;
  SchedulerHarness harness(config);
  SubmitAll(&harness, 2, 20, 4);
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(1)->token_count, 8);
  harness.Complete();
  harness.Drain();
}

TEST(RequestPolicy, NobodyJoinsUntilTheBatchHasEnded) {
  SchedulerConfig config = Config("request");
  config.kv_blocks = 64;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 2), 2).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 2), 9).ok());
  harness.Step();
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 2).ok());
  ASSERT_TRUE(harness.Submit(4, Range(400, 2), 2, {.priority = PriorityClass::kRealtime}).ok());
  for (int i = 0; i < 8; ++i) {
    harness.Plan();
    EXPECT_FALSE(Runs(harness, 3));
    EXPECT_FALSE(Runs(harness, 4));
    harness.Complete();
  }
  EXPECT_FALSE(harness.scheduler().Find(2).has_value());
  harness.Plan();
  EXPECT_TRUE(Runs(harness, 3));
  EXPECT_TRUE(Runs(harness, 4));
  harness.Complete();
  harness.Drain();
}

TEST(Precedence, WhoCanNoLongerMeetItsDeadlineGoesBehindAllWhoCan) {
  SchedulerConfig config = Config("fcfs");
  config.max_sequences = 1;
  config.kv_blocks = 32;
  SchedulerHarness harness(config);  // a microsecond a step
  ASSERT_TRUE(harness.Submit(1, Range(100, 2), 20).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 2), 2, {.deadline = TimePoint(Duration(5'000))}).ok());
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 2).ok());
  ASSERT_TRUE(harness.Submit(4, Range(400, 2), 2, {.priority = PriorityClass::kBatch}).ok());
  while (harness.scheduler().Find(1).has_value()) ASSERT_TRUE(harness.Step());
  std::vector<SequenceId> ended;
  for (int i = 0; i < 6; ++i) {
    harness.Plan();
    for (const SequenceId id : {2, 3, 4}) {
      if (Runs(harness, id) && std::ranges::find(ended, id) == ended.end()) ended.push_back(id);
    }
    harness.Complete();
  }
  EXPECT_EQ(ended, (std::vector<SequenceId>{3, 2, 4})) << "late is behind its class, not behind a lower one";
}

// One tenant sends six, then another sends one: the second tenant's is next, though it came last.
TEST(Precedence, FairnessPutsTheTenantThatGotLeastFirst) {
  for (const bool fair : {false, true}) {
    SchedulerConfig config;
    config.tenant_fairness = fair;
    config.max_sequences = 1;
    config.max_batch_tokens = 4096;
    config.kv_blocks = 1000;
    config.context_length = 8192;
    SchedulerHarness harness(config);
    for (SequenceId id = 1; id <= 6; ++id) {
      ASSERT_TRUE(harness
                      .Submit(id, Range(static_cast<TokenId>(id * 10000), 4100), 2,
                              {.arrival = static_cast<std::int64_t>(id), .tenant = "greedy"})
                      .ok());
    }
    ASSERT_TRUE(harness.Submit(7, Range(90000, 10), 2, {.arrival = 7, .tenant = "modest"}).ok());
    std::vector<SequenceId> order;
    while (!harness.Plan().empty()) {
      const SequenceId id = harness.plan().slices.front().sequence;
      if (order.empty() || order.back() != id) order.push_back(id);
      harness.Complete();
    }
    EXPECT_EQ(std::ranges::find(order, 7u) - order.begin(), fair ? 1 : 6);
  }
}

// Decoders alone take 9 of the 10 ms that a step should take: prompts get the rest, and never nothing.
TEST(TokenGapTarget, CutsChunksToFit) {
  SchedulerConfig config = Config("fcfs");
  config.max_batch_tokens = 512;
  config.kv_blocks = 400;
  config.context_length = 1024;
  config.max_sequences = 8;
  config.token_gap_target = std::chrono::milliseconds(10);
  auto learnt = std::make_unique<Learnt>();
  learnt->latency = LatencyModel({.step = 0.008, .decoder = 0.001, .prompt_token = 20e-6});
  auto policy = std::move(*MakePolicy("fcfs", {}, *learnt));
  StepScheduler scheduler(config, std::move(policy), std::move(learnt));
  StepPlan plan;
  const auto submit = [&](SequenceId id, std::int32_t prompt) {
    SubmitRequest request;
    request.sequence = id;
    request.prompt = Range(static_cast<TokenId>(id * 1000), prompt);
    request.max_tokens = 200;
    ASSERT_TRUE(scheduler.Submit(std::move(request)).ok());
  };
  const auto complete = [&] {
    StepResult result{.step = plan.step};
    for (const Slice& slice : plan.slices) {
      if (slice.sample) result.outcomes.push_back({.sequence = slice.sequence, .token = 1});
    }
    scheduler.Complete(result, TimePoint());  // no time passes: nothing is learnt
  };
  submit(1, 300);
  scheduler.Plan(TimePoint(), &plan);
  EXPECT_EQ(plan.slices[0].token_count, 300) << "nobody decodes, so there is no gap to keep";
  complete();
  submit(2, 300);
  scheduler.Plan(TimePoint(), &plan);
  ASSERT_EQ(plan.slices.size(), 2u);
  EXPECT_NEAR(plan.slices[1].token_count, 50, 1) << "1 ms at 20 us a token";
  complete();
  submit(3, 2);
  submit(4, 2);
  for (const SequenceId id : {2, 3, 4}) {
    while (scheduler.Find(id)->generated_tokens == 0) {
      scheduler.Plan(TimePoint(), &plan);
      complete();
    }
  }
  submit(5, 300);
  scheduler.Plan(TimePoint(), &plan);
  ASSERT_EQ(plan.slices.size(), 5u);
  EXPECT_EQ(plan.slices[4].token_count, 16)
      << "decoders alone are over the target; prompts advance all the same";
  complete();
}

TEST(MaxLostPart, PreemptionsPauseWhenTheyCostTooMuch) {
  for (const double part : {0.001, 1.0}) {
    SchedulerConfig config = Config("mlfq");
    config.max_lost_part = part;
    config.max_sequences = 1;
    config.prefix_cache = false;  // whatever is pushed out is lost
    config.max_batch_tokens = 64;
    config.kv_blocks = 200;
    config.context_length = 400;
    config.settings.quantum = Duration(1000);
    config.settings.starvation_bound = Duration(0);
    auto learnt = std::make_unique<Learnt>();
    learnt->latency = LatencyModel({.step = 1e-6, .prompt_token = 1e-6});
    auto policy = std::move(*MakePolicy(config.policy, config.settings, *learnt));
    StepScheduler scheduler(config, std::move(policy), std::move(learnt));
    StepPlan plan;
    TimePoint now;
    SequenceId next = 1;
    const auto submit = [&](std::int32_t prompt, std::int32_t max_tokens) {
      SubmitRequest request;
      request.sequence = next++;
      request.prompt = Range(static_cast<TokenId>(request.sequence * 1000), prompt);
      request.max_tokens = max_tokens;
      request.arrival = now;
      ASSERT_TRUE(scheduler.Submit(std::move(request)).ok());
    };
    submit(60, 300);
    double busy = 0;
    for (int i = 0; i < 4000 && scheduler.Find(1).has_value(); ++i) {
      if (i % 3 == 2) submit(1, 1);
      scheduler.Plan(now, &plan);
      const Duration step = FromSeconds(1e-6 + 1e-6 * static_cast<double>(plan.tokens.size()));
      busy += ToSeconds(step);
      now += step;
      StepResult result{.step = plan.step};
      for (const Slice& slice : plan.slices) {
        if (slice.sample) result.outcomes.push_back({.sequence = slice.sequence, .token = 1});
      }
      scheduler.Complete(result, now);
    }
    const double lost = 1e-6 * static_cast<double>(scheduler.Stats().recomputed_tokens);
    if (part < 1) {
      // The allowance of half a minute's part, one preemption beyond it, and the part of the time itself.
      EXPECT_LE(lost, part * 30 + 360e-6 + part * busy);
    } else {
      EXPECT_GT(scheduler.Stats().preemptions, 100u);
    }
  }
}

}  // namespace
}  // namespace skipjack
