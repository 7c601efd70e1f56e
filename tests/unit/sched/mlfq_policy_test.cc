// Skip-join queues by hand: a first quantum of 10 ms, so the queues' quanta are 10, 20, 40, 80 ms.
#include "sched/mlfq_policy.h"

#include <gtest/gtest.h>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using std::chrono::milliseconds;
using testing::Range;
using testing::SchedulerHarness;

const LatencyModel kUnknown;
constexpr PolicySettings kSettings = {.quantum = milliseconds(10), .starvation_bound = milliseconds(300)};

SequenceSnapshot Joined(Duration prefill, Duration attained = {}) {
  SequenceSnapshot sequence;
  sequence.expected_prefill = prefill;
  sequence.attained = attained;
  return sequence;
}

TEST(MlfqPolicy, JoinsTheFirstQueueWhoseQuantumHoldsThePrompt) {
  const MlfqPolicy policy(kSettings, kUnknown);
  EXPECT_EQ(policy.LevelOf(Joined(milliseconds(0))), 0);
  EXPECT_EQ(policy.LevelOf(Joined(milliseconds(10))), 0);
  EXPECT_EQ(policy.LevelOf(Joined(milliseconds(10) + Duration(1))), 1);
  EXPECT_EQ(policy.LevelOf(Joined(milliseconds(20))), 1);
  EXPECT_EQ(policy.LevelOf(Joined(milliseconds(21))), 2);
  EXPECT_EQ(policy.LevelOf(Joined(milliseconds(80))), 3);
  EXPECT_EQ(policy.LevelOf(Joined(std::chrono::hours(100))), 20);
}

TEST(MlfqPolicy, SinksWhenAQuantumIsUsedUp) {
  const MlfqPolicy policy(kSettings, kUnknown);
  const auto level = [&](int prefill, double attained) {
    return policy.LevelOf(Joined(milliseconds(prefill), FromSeconds(attained / 1000)));
  };
  EXPECT_EQ(level(0, 9.9), 0);
  EXPECT_EQ(level(0, 10), 1);
  EXPECT_EQ(level(0, 29.9), 1);
  EXPECT_EQ(level(0, 30), 2);
  EXPECT_EQ(level(0, 70), 3);
  // Joined at queue 2, whose 40 ms it may use in full.
  EXPECT_EQ(level(40, 39.9), 2);
  EXPECT_EQ(level(40, 40), 3);
  EXPECT_EQ(level(40, 119.9), 3);
  EXPECT_EQ(level(40, 120), 4);
}

TEST(MlfqPolicy, APromotedOneIsInTheFirstQueueForTheQuantumOfTheOneItLeft) {
  const MlfqPolicy policy(kSettings, kUnknown);
  SequenceSnapshot sequence = Joined(milliseconds(500));
  EXPECT_EQ(policy.LevelOf(sequence), 6);
  sequence.key = PolicyKey{6, 0};
  const std::optional<Promotion> promotion = policy.PromotionOf(sequence);
  ASSERT_TRUE(promotion.has_value());
  EXPECT_EQ(promotion->after, milliseconds(300));
  EXPECT_EQ(promotion->service, milliseconds(640));
  sequence.promoted = true;
  EXPECT_EQ(policy.LevelOf(sequence), 0);
  sequence.key = PolicyKey{0, 0};
  EXPECT_EQ(policy.PromotionOf(sequence), std::nullopt);
}

TEST(MlfqPolicy, KeepsItsPlaceWithinAQueueAndGoesToTheBackOfTheNext) {
  const MlfqPolicy policy(kSettings, kUnknown);
  SequenceSnapshot sequence = Joined(milliseconds(0));
  sequence.observed_at = TimePoint(Duration(100));
  sequence.key = policy.KeyOf(sequence);
  EXPECT_EQ(*sequence.key, (PolicyKey{.level = 0, .key = 100}));
  sequence.observed_at = TimePoint(Duration(200));
  EXPECT_EQ(policy.KeyOf(sequence), *sequence.key);
  sequence.attained = milliseconds(15);
  EXPECT_EQ(policy.KeyOf(sequence), (PolicyKey{.level = 1, .key = 200}));
}

TEST(MlfqPolicy, OnlyALowerQueuePreempts) {
  const MlfqPolicy policy(kSettings, kUnknown);
  const SequenceSnapshot high{.key = PolicyKey{0, 900}};
  const SequenceSnapshot low{.key = PolicyKey{1, 5}};
  const SequenceSnapshot early{.key = PolicyKey{0, 5}};
  EXPECT_TRUE(policy.MayPreempt(high, low));
  EXPECT_FALSE(policy.MayPreempt(low, high));
  EXPECT_FALSE(policy.MayPreempt(early, high)) << "equals never take turns";
}

SchedulerConfig OneSeat() {
  SchedulerConfig config;
  config.policy = "mlfq";
  config.settings = kSettings;
  config.max_batch_tokens = 64;
  config.max_sequences = 1;
  config.block_tokens = 4;
  config.kv_blocks = 64;
  config.context_length = 128;
  return config;
}

// One seat, 10 ms a step. A (8 tokens) has used 10 + 20 ms and one step of its 40 ms when B (1 token) comes:
// B runs at once, and A goes on where it was.
TEST(MlfqPolicy, AShortOnePassesALongOneByHand) {
  SchedulerHarness harness(OneSeat());
  harness.SetStepTime(milliseconds(10));
  ASSERT_TRUE(harness.Submit(1, Range(100, 1), 8).ok());
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Submit(2, Range(200, 1), 1, {.arrival = 35'000'000}).ok());
  harness.Plan();
  EXPECT_EQ(harness.plan().preempted,
            (std::vector<Preemption>{
                {.sequence = 1, .tokens_lost = 4, .cause = PreemptionCause::kPolicy, .by = 2}}));
  ASSERT_NE(harness.SliceOf(2), nullptr);
  harness.Complete();
  EXPECT_FALSE(harness.scheduler().Find(2).has_value());
  EXPECT_EQ(harness.Drain(), 4) << "computing again gives the next token in the same step";
  EXPECT_EQ(harness.now(), TimePoint(milliseconds(90)));
}

// Newcomers of one step each, one per step, for ever. A needs 20 steps. It is passed by all of them until it
// was not served for 300 ms; then it goes first for the quantum of its queue: 20, 40, 80 and 160 ms.
TEST(MlfqPolicy, StarvationIsBoundedByPromotion) {
  SchedulerHarness harness(OneSeat());
  harness.SetStepTime(milliseconds(10));
  ASSERT_TRUE(harness.Submit(1, Range(100, 1), 20).ok());
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Step());  // it is in the second queue now
  SequenceId next = 2;
  int waited = 0;
  int longest = 0;
  for (int step = 0; step < 1000 && harness.scheduler().Find(1).has_value(); ++step) {
    ASSERT_TRUE(harness
                    .Submit(next++, Range(static_cast<TokenId>(1000 + step), 1), 1,
                            {.arrival = harness.now().time_since_epoch().count()})
                    .ok());
    harness.Plan();
    waited = harness.SliceOf(1) != nullptr ? 0 : waited + 1;
    longest = std::max(longest, waited);
    harness.Complete();
  }
  EXPECT_FALSE(harness.scheduler().Find(1).has_value());
  // 300 ms, and those who were in the first queue before it.
  EXPECT_GE(longest, 29);
  EXPECT_LE(longest, 60);
  EXPECT_EQ(harness.scheduler().Stats().promotions, 4u);
}

}  // namespace
}  // namespace skipjack
