// Hand-worked steps: what is computed when, and who is refused.
#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using testing::Range;
using testing::SchedulerHarness;

SchedulerConfig SmallConfig() {
  SchedulerConfig config;
  config.max_batch_tokens = 6;
  config.max_sequences = 4;
  config.max_queued = 100;
  config.block_tokens = 4;
  config.kv_blocks = 32;
  config.context_length = 64;
  return config;
}

void ExpectMentions(const Status& status, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString() << " lacks " << part;
  }
}

TEST(Scheduler, CreateRefusesBadConfigurationsByName) {
  ASSERT_TRUE(Scheduler::Create(SmallConfig()).ok());
  const std::vector<std::pair<std::string, std::int32_t SchedulerConfig::*>> fields = {
      {"max_batch_tokens", &SchedulerConfig::max_batch_tokens},
      {"max_sequences", &SchedulerConfig::max_sequences},
      {"max_queued", &SchedulerConfig::max_queued},
      {"block_tokens", &SchedulerConfig::block_tokens},
      {"kv_blocks", &SchedulerConfig::kv_blocks},
      {"context_length", &SchedulerConfig::context_length},
  };
  for (const auto& [name, field] : fields) {
    for (const std::int32_t bad : {0, -3}) {
      SchedulerConfig config = SmallConfig();
      config.*field = bad;
      const Status status = Scheduler::Create(config).status();
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      ExpectMentions(status, {name, std::to_string(bad)});
    }
  }
  SchedulerConfig config = SmallConfig();
  config.max_sequences = 7;
  ExpectMentions(Scheduler::Create(config).status(), {"max_batch_tokens (6)", "max_sequences (7)"});
  config = SmallConfig();
  config.policy = "lottery";
  ExpectMentions(Scheduler::Create(config).status(), {"lottery", "fcfs"});
  config = SmallConfig();
  config.block_tokens = 1;
  config.max_sequences = config.max_batch_tokens = 100000;
  config.context_length = 100000;
  ExpectMentions(Scheduler::Create(config).status(), {"10000000000"});
}

TEST(Scheduler, PromptIsComputedInChunksAndOnlyTheLastSamples) {
  SchedulerHarness harness(SmallConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 10), 3).ok());

  EXPECT_EQ(harness.Plan().slices,
            (std::vector<Slice>{{.sequence = 1, .position = 0, .token_count = 6, .table_count = 2}}));
  EXPECT_EQ(harness.plan().tokens, Range(100, 6));
  harness.Complete();
  EXPECT_EQ(harness.Plan().slices,
            (std::vector<Slice>{
                {.sequence = 1, .position = 6, .token_count = 4, .table_count = 3, .sample = true}}));
  harness.Complete();
  ASSERT_EQ(harness.Generated(1).size(), 1u);

  EXPECT_EQ(harness.Plan().slices,
            (std::vector<Slice>{
                {.sequence = 1, .position = 10, .token_count = 1, .table_count = 3, .sample = true}}));
  EXPECT_EQ(harness.plan().tokens, harness.Generated(1));
  harness.Complete();
  EXPECT_EQ(harness.Plan().slices[0].position, 11);
  harness.Complete();
  EXPECT_FALSE(harness.scheduler().Find(1).has_value()) << "max_tokens ends a sequence by itself";
  EXPECT_TRUE(harness.Plan().empty());
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
}

TEST(Scheduler, DecodersComeFirstThenChunksInOrder) {
  SchedulerHarness harness(SmallConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 3), 8).ok());
  harness.Step();  // sequence 1 decodes from now on
  ASSERT_TRUE(harness.Submit(3, Range(300, 9), 8, {.arrival = 30}).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 8, {.arrival = 20}).ok());

  EXPECT_EQ(harness.Plan().slices, (std::vector<Slice>{{.sequence = 1,
                                                        .position = 3,
                                                        .token_offset = 0,
                                                        .token_count = 1,
                                                        .table_offset = 0,
                                                        .table_count = 1,
                                                        .sample = true},
                                                       {.sequence = 2,
                                                        .position = 0,
                                                        .token_offset = 1,
                                                        .token_count = 4,
                                                        .table_offset = 1,
                                                        .table_count = 1,
                                                        .sample = true},
                                                       {.sequence = 3,
                                                        .position = 0,
                                                        .token_offset = 5,
                                                        .token_count = 1,
                                                        .table_offset = 2,
                                                        .table_count = 1,
                                                        .sample = false}}));
  harness.Complete();
  EXPECT_EQ(harness.Plan().slices, (std::vector<Slice>{{.sequence = 1,
                                                        .position = 4,
                                                        .token_offset = 0,
                                                        .token_count = 1,
                                                        .table_offset = 0,
                                                        .table_count = 2,
                                                        .sample = true},
                                                       {.sequence = 2,
                                                        .position = 4,
                                                        .token_offset = 1,
                                                        .token_count = 1,
                                                        .table_offset = 2,
                                                        .table_count = 2,
                                                        .sample = true},
                                                       {.sequence = 3,
                                                        .position = 1,
                                                        .token_offset = 2,
                                                        .token_count = 4,
                                                        .table_offset = 4,
                                                        .table_count = 2,
                                                        .sample = false}}));
  harness.Complete();
  harness.Drain();
}

TEST(Scheduler, HigherClassesGoFirst) {
  SchedulerConfig config = SmallConfig();
  config.max_batch_tokens = 4;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 6), 2, {.priority = PriorityClass::kBatch, .arrival = 1}).ok());
  harness.Step();
  ASSERT_TRUE(
      harness.Submit(2, Range(200, 3), 2, {.priority = PriorityClass::kInteractive, .arrival = 2}).ok());
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 2, {.priority = PriorityClass::kRealtime, .arrival = 3}).ok());
  harness.Plan();
  ASSERT_EQ(harness.plan().slices.size(), 2u);
  EXPECT_EQ(harness.plan().slices[0].sequence, 3u);
  EXPECT_EQ(harness.plan().slices[1].sequence, 2u);
  EXPECT_EQ(harness.SliceOf(1), nullptr) << "a prompt under way yields the budget to a higher class";
  harness.Complete();
  harness.Drain();
}

TEST(Scheduler, RefusesWhatCanNeverRunNamingBothNumbers) {
  SchedulerConfig config = SmallConfig();
  config.kv_blocks = 8;
  SchedulerHarness harness(config);
  EXPECT_EQ(harness.Submit(1, {}, 4).code(), StatusCode::kInvalidArgument);
  ExpectMentions(harness.Submit(1, Range(1, 4), 0), {"max_tokens", "0"});
  ExpectMentions(harness.Submit(1, Range(1, 4), -2147483647), {"max_tokens", "-2147483647"});
  ExpectMentions(harness.Submit(1, Range(1, 4), 2147483647), {"2147483647", "context length of 64"});
  ExpectMentions(harness.Submit(1, Range(1, 30), 4),
                 {"30 tokens", "max_tokens 4", "9 KV blocks", "pool has 8"});
  EXPECT_TRUE(harness.Submit(1, Range(1, 30), 3).ok()) << "exactly the whole pool";
  EXPECT_EQ(harness.Submit(1, Range(1, 4), 4).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
  EXPECT_EQ(harness.scheduler().Stats().waiting, 1);
  harness.Drain();
}

TEST(Scheduler, RefusesWhenTheQueueIsFull) {
  SchedulerConfig config = SmallConfig();
  config.max_queued = 2;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 4), 4).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 4).ok());
  const Status status = harness.Submit(3, Range(300, 4), 4);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  ExpectMentions(status, {"2 sequences", "max_queued is 2"});
  harness.Step();  // both are running now
  EXPECT_TRUE(harness.Submit(3, Range(300, 4), 4).ok());
  harness.Drain();
}

TEST(Scheduler, ManyRefusalsLeaveNothingBehind) {
  SchedulerHarness harness(SmallConfig());
  for (SequenceId id = 1; id <= 20000; ++id) {
    ASSERT_EQ(harness.Submit(id, Range(0, 60), 60, {.salt = "tenant " + std::to_string(id)}).code(),
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
  EXPECT_EQ(harness.scheduler().Stats().waiting, 0);
  EXPECT_EQ(harness.scheduler().kv().index().roots(), 0);
  ASSERT_TRUE(harness.Submit(20001, Range(0, 5), 3).ok());
  harness.Drain();
  EXPECT_EQ(harness.Generated(20001).size(), 3u);
}

TEST(Scheduler, LargeMaxTokensDoNotKeepOthersOut) {
  SchedulerConfig config = SmallConfig();
  config.max_batch_tokens = 64;
  config.max_sequences = 8;
  config.kv_blocks = 64;
  config.context_length = 256;
  SchedulerHarness harness(config);
  for (SequenceId id = 1; id <= 8; ++id) {
    ASSERT_TRUE(
        harness.Submit(id, Range(static_cast<TokenId>(100 * id), 8), 248).ok());  // each the whole pool
  }
  harness.Step();
  EXPECT_EQ(harness.scheduler().Stats().running, 8)
      << "room is reserved for what is there, not for max_tokens";
}

TEST(Scheduler, OneSequenceMayFillTheWholePool) {
  SchedulerConfig config = SmallConfig();
  config.kv_blocks = 8;
  config.context_length = 32;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 5), 27).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 5), 27).ok());
  harness.Drain();
  EXPECT_EQ(harness.Generated(1).size(), 27u);
  EXPECT_EQ(harness.Generated(2).size(), 27u);
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
}

TEST(Scheduler, SeatsAreBounded) {
  SchedulerConfig config = SmallConfig();
  config.max_sequences = 2;
  SchedulerHarness harness(config);
  for (SequenceId id = 1; id <= 3; ++id) {
    ASSERT_TRUE(harness.Submit(id, Range(static_cast<TokenId>(100 * id), 1), 3).ok());
  }
  harness.Step();
  EXPECT_EQ(harness.scheduler().Stats().running, 2);
  EXPECT_EQ(harness.scheduler().Stats().waiting, 1);
  harness.Drain();
}

TEST(Scheduler, OnlyOnePlanIsInFlight) {
  SchedulerHarness harness(SmallConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 3), 5).ok());
  const std::uint64_t step = harness.Plan().step;
  StepPlan second;
  second.tokens = {1};
  harness.scheduler().Plan(TimePoint(), &second);
  EXPECT_TRUE(second.empty());
  EXPECT_TRUE(second.tokens.empty());
  harness.Complete();
  EXPECT_EQ(harness.Plan().step, step + 1);
  harness.Complete();
  harness.Drain();
}

TEST(Scheduler, ResultsOfOtherStepsAreIgnored) {
  SchedulerHarness harness(SmallConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 3), 5).ok());
  harness.scheduler().Complete({.step = 1, .outcomes = {{.sequence = 1, .token = 5}}}, TimePoint());
  const StepPlan plan = harness.Plan();
  harness.scheduler().Complete({.step = plan.step + 1, .outcomes = {{.sequence = 1, .token = 5}}},
                               TimePoint());
  EXPECT_EQ(harness.scheduler().Find(1)->generated_tokens, 0);
  harness.Complete();
  harness.scheduler().Complete({.step = plan.step, .outcomes = {{.sequence = 1, .token = 5}}}, TimePoint());
  EXPECT_EQ(harness.scheduler().Find(1)->generated_tokens, 1);
  harness.Drain();
}

TEST(Scheduler, OddOutcomesDoNoHarm) {
  SchedulerHarness harness(SmallConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 3), 5).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 9), 5).ok());
  harness.Plan();
  ASSERT_FALSE(harness.SliceOf(2)->sample);
  harness.Complete([](std::vector<SliceOutcome>* outcomes) {
    outcomes->push_back({.sequence = 77, .token = 1, .finished = true});  // nobody
  });
  EXPECT_EQ(harness.scheduler().Find(2)->computed_tokens, 3);
  EXPECT_EQ(harness.scheduler().Find(2)->generated_tokens, 0);
  EXPECT_EQ(harness.scheduler().Find(1)->generated_tokens, 1);
  harness.Drain();
}

TEST(Scheduler, ALostSampleIsPlannedAgain) {
  SchedulerConfig config = SmallConfig();
  config.max_batch_tokens = 8;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 8), 5).ok());
  const auto lose = [](std::vector<SliceOutcome>* outcomes) { outcomes->clear(); };
  harness.Step(lose);
  EXPECT_EQ(harness.scheduler().Find(1)->computed_tokens, 7);
  EXPECT_EQ(harness.scheduler().kv().index().size(), 1) << "the block to be written again is not published";
  harness.Step(lose);
  EXPECT_EQ(harness.plan().slices[0].position, 7);
  harness.Step();
  EXPECT_EQ(harness.plan().slices[0].position, 7);
  EXPECT_EQ(harness.Generated(1).size(), 1u);
  harness.Step(lose);
  EXPECT_EQ(harness.plan().slices[0].position, 8);
  harness.Step();
  EXPECT_EQ(harness.plan().slices[0].position, 8);
  harness.Drain();
  EXPECT_EQ(harness.Generated(1).size(), 5u);
}

TEST(Scheduler, TheEngineMayEndASequenceAtAnySlice) {
  SchedulerHarness harness(SmallConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 12), 5).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 3), 5).ok());
  harness.Step([](std::vector<SliceOutcome>* outcomes) {
    outcomes->push_back({.sequence = 1, .finished = true});  // in the middle of its prompt
  });
  EXPECT_FALSE(harness.scheduler().Find(1).has_value());
  harness.Step();
  harness.Step([](std::vector<SliceOutcome>* outcomes) { outcomes->front().finished = true; });
  EXPECT_FALSE(harness.scheduler().Find(2).has_value());
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
}

TEST(Scheduler, DebugStringShowsWhoDoesWhat) {
  SchedulerConfig config = SmallConfig();
  config.max_sequences = 1;
  SchedulerHarness harness(config);
  for (SequenceId id = 1; id <= 30; ++id) ASSERT_TRUE(harness.Submit(id, Range(777, 8), 2).ok());
  harness.Plan();
  const std::string text = harness.scheduler().DebugString();
  for (const char* part : {"policy fcfs", "step 1 in flight", "32 total", "running: 1",
                           "sequence 1 prefilling", "waiting: 29", "sequence 2 waiting", "and 9 more"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
  }
  EXPECT_EQ(text.find("777"), std::string::npos) << "prompts do not belong in logs";
  harness.Complete();
}

}  // namespace
}  // namespace skipjack
