// Cancelling in every state, and steps that fail.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using testing::Range;
using testing::SchedulerHarness;

SchedulerConfig FaultConfig() {
  SchedulerConfig config;
  config.max_batch_tokens = 8;
  config.max_sequences = 4;
  config.block_tokens = 4;
  config.kv_blocks = 16;
  config.context_length = 64;
  return config;
}

TEST(SchedulerCancel, Waiting) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 4), 4).ok());
  harness.Cancel(1);
  harness.Cancel(1);
  harness.Cancel(99);
  EXPECT_TRUE(harness.Plan().empty());
  EXPECT_EQ(harness.scheduler().Stats().waiting, 0);
}

TEST(SchedulerCancel, BetweenStepsBlocksAreFreeAtOnce) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 12), 4).ok());  // in its prompt
  harness.Step();
  harness.Cancel(1);
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
  ASSERT_TRUE(harness.Submit(2, Range(200, 3), 4).ok());
  harness.Step();
  harness.Step();
  harness.Cancel(2);  // decoding
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
  EXPECT_EQ(harness.scheduler().Stats().running, 0);
  EXPECT_TRUE(harness.Plan().empty());
}

TEST(SchedulerCancel, InFlightBlocksStayUntilTheStepEnds) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 7), 4).ok());
  harness.Plan();
  harness.Cancel(1);
  EXPECT_EQ(harness.scheduler().Stats().running, 0);
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 2) << "the step still writes there";
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 4).ok());
  harness.CheckInvariants();
  harness.Complete();
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
  EXPECT_EQ(harness.scheduler().Stats().blocks_cached, 0);
  harness.Drain();
}

TEST(SchedulerCancel, InFlightOfAStepThatFails) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 7), 4).ok());
  harness.Plan();
  harness.Cancel(1);
  harness.Fail();
  EXPECT_EQ(harness.scheduler().Stats().blocks_free, 16);
  EXPECT_TRUE(harness.Plan().empty());
}

TEST(SchedulerCancel, Preempted) {
  SchedulerConfig config = FaultConfig();
  config.max_sequences = 1;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 7), 4, {.priority = PriorityClass::kBatch}).ok());
  harness.Step();
  ASSERT_TRUE(harness.Submit(2, Range(200, 7), 4).ok());
  harness.Plan();
  ASSERT_EQ(harness.plan().preempted.size(), 1u);
  harness.Cancel(1);
  harness.CheckInvariants();
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
}

TEST(SchedulerFailure, TheSameStepIsPlannedAgain) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 3), 6).ok());
  harness.Step();
  ASSERT_TRUE(harness.Submit(2, Range(200, 20), 6).ok());
  ASSERT_TRUE(harness.Submit(3, Range(300, 5), 6).ok());
  const StepPlan first = harness.Plan();
  harness.Fail();
  // What came since then waits for its turn.
  ASSERT_TRUE(harness.Submit(4, Range(400, 2), 2, {.priority = PriorityClass::kRealtime}).ok());
  const StepPlan second = harness.Plan();
  EXPECT_EQ(second.slices, first.slices);
  EXPECT_EQ(second.tokens, first.tokens);
  EXPECT_EQ(second.block_tables, first.block_tables);
  EXPECT_NE(second.step, first.step) << "a late result of the first try can be told apart";
  harness.Complete();
  harness.Plan();
  EXPECT_NE(harness.SliceOf(4), nullptr);
  harness.Complete();
  harness.Drain();
}

TEST(SchedulerFailure, NothingOfTheStepIsUsed) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 8), 4).ok());
  harness.Plan();
  harness.Fail();
  EXPECT_EQ(harness.scheduler().Find(1)->computed_tokens, 0);
  EXPECT_EQ(harness.scheduler().Find(1)->generated_tokens, 0);
  EXPECT_EQ(harness.scheduler().kv().index().size(), 0);
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    harness.Plan();
    harness.Fail(seed);
  }
  harness.Drain();
  EXPECT_EQ(harness.Generated(1).size(), 4u);
  EXPECT_EQ(harness.scheduler().Stats().recomputed_tokens, 0u);
}

TEST(SchedulerDrop, TheNextPlanIsMadeFreely) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 3), 6).ok());
  harness.Step();
  ASSERT_TRUE(harness.Submit(2, Range(200, 20), 6).ok());
  harness.Plan();
  ASSERT_NE(harness.SliceOf(2), nullptr);
  harness.Drop();
  EXPECT_EQ(harness.scheduler().Find(1)->generated_tokens, 1);
  EXPECT_EQ(harness.scheduler().Find(2)->computed_tokens, 0);
  ASSERT_TRUE(harness.Submit(3, Range(300, 5), 6, {.priority = PriorityClass::kRealtime}).ok());
  harness.Plan();
  ASSERT_NE(harness.SliceOf(3), nullptr);
  EXPECT_EQ(harness.SliceOf(3)->token_count, 5);
  EXPECT_TRUE(harness.SliceOf(3)->sample);
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.Generated(2).size(), 6u);
  EXPECT_EQ(harness.scheduler().Stats().recomputed_tokens, 0u) << "nothing had been computed";
  EXPECT_EQ(harness.scheduler().Stats().preemptions, 0u);
}

TEST(SchedulerDrop, NothingOfTheStepIsUsed) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 8), 4).ok());
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    harness.Plan();
    harness.Drop(seed);
    EXPECT_EQ(harness.scheduler().kv().index().size(), 0);
  }
  harness.Drain();
  EXPECT_EQ(harness.Generated(1).size(), 4u);
}

TEST(SchedulerDrop, AfterAFailureToo) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 8), 4).ok());
  harness.Plan();
  harness.Fail();
  harness.Plan();
  harness.Drop();
  ASSERT_TRUE(harness.Submit(2, Range(200, 5), 6, {.priority = PriorityClass::kRealtime}).ok());
  harness.Plan();
  EXPECT_NE(harness.SliceOf(2), nullptr);
  harness.Complete();
  harness.Drain();
}

TEST(SchedulerDrop, TheCancelledAreLetGo) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 7), 4).ok());
  harness.Plan();
  harness.Cancel(1);
  harness.Drop();
  EXPECT_EQ(harness.scheduler().Stats().blocks_free, 16);
  EXPECT_TRUE(harness.Plan().empty());
}

// The first fit is made of eight steps. A long one that was dropped is none of them.
TEST(SchedulerDrop, NothingIsLearnt) {
  SchedulerHarness harness(FaultConfig());
  harness.SetStepTime(std::chrono::milliseconds(100));
  ASSERT_TRUE(harness.Submit(1, Range(100, 1), 12).ok());
  for (int i = 0; i < 7; ++i) {
    harness.Plan();
    EXPECT_EQ(harness.scheduler().ExpectedTime(), std::nullopt);
    harness.Complete();
  }
  harness.SetStepTime(std::chrono::seconds(10));
  harness.Plan();
  harness.Drop();
  EXPECT_EQ(harness.scheduler().Latency(), LatencyCoefficients{});
  harness.SetStepTime(std::chrono::milliseconds(100));
  harness.Step();
  EXPECT_EQ(harness.scheduler().ExpectedTime(), std::nullopt) << "no plan is in flight";
  harness.Plan();
  ASSERT_TRUE(harness.scheduler().ExpectedTime().has_value());
  EXPECT_NEAR(ToSeconds(*harness.scheduler().ExpectedTime()), 0.1, 0.01);
  harness.Complete();
  harness.Drain();
}

TEST(SchedulerFailure, TheRepeatedStepLeavesOutTheCancelled) {
  SchedulerHarness harness(FaultConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 3), 6).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 3), 6).ok());
  harness.Step();
  harness.Plan();
  harness.Fail();
  harness.Cancel(1);
  harness.Plan();
  EXPECT_EQ(harness.plan().slices.size(), 1u);
  harness.Fail();
  harness.Cancel(2);
  EXPECT_TRUE(harness.Plan().empty());
  ASSERT_TRUE(harness.Submit(3, Range(300, 3), 6).ok()) << "with nothing left to repeat, planning goes on";
  harness.Drain();
  EXPECT_EQ(harness.Generated(3).size(), 6u);
}

}  // namespace
}  // namespace skipjack
