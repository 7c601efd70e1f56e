#include "sched/index_policy.h"

#include <gtest/gtest.h>

#include <random>

#include "sched/mlfq_policy.h"
#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using testing::Range;
using testing::SchedulerHarness;

constexpr PolicySettings kSettings = {.quantum = std::chrono::milliseconds(10)};

SequenceSnapshot Generated(std::int32_t tokens) {
  SequenceSnapshot sequence{.prompt_tokens = 10, .max_tokens = 4000, .generated_tokens = tokens};
  sequence.computed_tokens = 10;
  return sequence;
}

// Half of the answers have 10 tokens, half 1,000.
Learnt TwoLengths() {
  Learnt learnt;
  for (int i = 0; i < 2000; ++i) learnt.lengths.Observe(LengthModel::kAll, i % 2 == 0 ? 10 : 1000);
  return learnt;
}

TEST(IndexPolicy, WithoutHistoryItIsMlfqFourTimesFiner) {
  const Learnt learnt;
  const IndexPolicy index(kSettings, learnt);
  const MlfqPolicy mlfq(kSettings, learnt.latency);
  std::mt19937_64 random(3);
  for (int i = 0; i < 2000; ++i) {
    const auto draw = [&] {
      SequenceSnapshot s = Generated(static_cast<std::int32_t>(random() % 500));
      s.expected_prefill = std::chrono::milliseconds(random() % 200);
      s.attained = std::chrono::milliseconds(random() % 1000);
      s.observed_at = TimePoint(Duration(static_cast<std::int64_t>(random() % 100)));
      return s;
    };
    SequenceSnapshot a = draw();
    SequenceSnapshot b = draw();
    const PolicyKey a_mlfq = mlfq.KeyOf(a);
    const PolicyKey b_mlfq = mlfq.KeyOf(b);
    const PolicyKey a_index = index.KeyOf(a);
    const PolicyKey b_index = index.KeyOf(b);
    EXPECT_EQ(a_index.level, 4 * a_mlfq.level);
    EXPECT_EQ(a_index <=> b_index, a_mlfq <=> b_mlfq);
    a.key = a_index;
    b.key = b_index;
    const bool may = index.MayPreempt(a, b);
    a.key = a_mlfq;
    b.key = b_mlfq;
    EXPECT_EQ(may, mlfq.MayPreempt(a, b));
  }
}

// The whole scheduler, under pressure and with promotions: the same plans, step by step.
TEST(IndexPolicy, WithoutHistoryThePlansAreThoseOfMlfq) {
  std::vector<std::uint64_t> plans[2];
  std::uint64_t promotions = 0;
  std::uint64_t preemptions = 0;
  for (int run = 0; run < 2; ++run) {
    SchedulerConfig config;
    config.policy = run == 0 ? "mlfq" : "index";
    config.settings.starvation_bound = Duration(30'000);
    config.max_batch_tokens = 24;
    config.max_sequences = 3;
    config.block_tokens = 4;
    config.kv_blocks = 40;
    config.context_length = 128;
    SchedulerHarness harness(config);
    std::mt19937_64 random(11);
    for (SequenceId id = 1; id <= 30; ++id) {  // fewer than it takes to conclude anything
      ASSERT_TRUE(harness
                      .Submit(id, Range(static_cast<TokenId>(id * 100), 1 + static_cast<int>(random() % 30)),
                              1 + static_cast<int>(random() % 60),
                              {.arrival = harness.now().time_since_epoch().count()})
                      .ok());
      for (std::uint64_t steps = random() % 12; steps > 0 && harness.Step(); --steps) {
        plans[run].push_back(harness.plan().Hash());
      }
    }
    while (harness.Step()) plans[run].push_back(harness.plan().Hash());
    promotions += harness.scheduler().Stats().promotions;
    preemptions += harness.scheduler().Stats().preemptions;
  }
  EXPECT_EQ(plans[0], plans[1]);
  EXPECT_GT(promotions, 10u);
  EXPECT_GT(preemptions, 20u);
}

TEST(IndexPolicy, LevelsAreQuarterOctavesOfTheGittinsRank) {
  const Learnt learnt = TwoLengths();
  const IndexPolicy policy(kSettings, learnt);
  // 20 tokens of work a completion at first: 4 log2(20) = 17.3. After 10 tokens 990 remain: 39.8.
  EXPECT_EQ(policy.KeyOf(Generated(0)).level, 17);
  EXPECT_EQ(policy.KeyOf(Generated(10)).level, 39);
  EXPECT_LT(policy.KeyOf(Generated(950)).level, policy.KeyOf(Generated(500)).level)
      << "whoever is nearly through goes ahead of who is half way";
}

TEST(IndexPolicy, MaxTokensBoundWhatRemains) {
  const Learnt learnt = TwoLengths();
  const IndexPolicy policy(kSettings, learnt);
  SequenceSnapshot sequence = Generated(100);
  const std::int64_t open = policy.KeyOf(sequence).level;
  sequence.max_tokens = 104;
  EXPECT_EQ(policy.KeyOf(sequence).level, 8) << "4 tokens";
  EXPECT_LT(8, open);
}

TEST(IndexPolicy, APromptIsWorkToBeDoneFirst) {
  const Learnt learnt = TwoLengths();
  const IndexPolicy policy(kSettings, learnt);
  SequenceSnapshot sequence = Generated(0);
  sequence.computed_tokens = 0;
  sequence.expected_prefill = std::chrono::seconds(1);  // 100 iterations
  EXPECT_NEAR(policy.RankOf(sequence), 220, 10);
}

TEST(IndexPolicy, WhoTakesMoreThanASeatsPartOfThePoolIsChargedForIt) {
  Learnt learnt = TwoLengths();
  learnt.seats = 10;
  learnt.kv_tokens = 1000;
  const IndexPolicy policy(kSettings, learnt);
  SequenceSnapshot sequence = Generated(0);
  const double small = policy.RankOf(sequence);
  sequence.prompt_tokens = sequence.computed_tokens =
      390;  // with half the work ahead: 400 of 1,000, four seats
  EXPECT_NEAR(policy.RankOf(sequence), 4 * small, 0.1 * small);
}

TEST(IndexPolicy, RunningOnesAreHeldUnlessSomebodyIsAheadByTheMargin) {
  const Learnt learnt = TwoLengths();
  const IndexPolicy policy(kSettings, learnt);  // 30 %: two quarters of an octave
  SequenceSnapshot running = Generated(10);
  running.key = PolicyKey{20, 0};
  SequenceSnapshot waiting = Generated(0);
  for (const std::int64_t level : {20, 19, 18}) {
    waiting.key = PolicyKey{level, 0};
    EXPECT_FALSE(policy.MayPreempt(waiting, running)) << level;
  }
  waiting.key = PolicyKey{17, 0};
  EXPECT_TRUE(policy.MayPreempt(waiting, running));
  running.generated_tokens = 900;  // of 1,000 to be expected
  EXPECT_FALSE(policy.MayPreempt(waiting, running));
}

TEST(IndexPolicy, WhoWaitedForTheAgeingBoundGoesFirstUntilItEnds) {
  const Learnt learnt = TwoLengths();
  const IndexPolicy policy(kSettings, learnt);
  SequenceSnapshot sequence = Generated(10);
  const std::optional<Promotion> promotion = policy.PromotionOf(sequence);
  ASSERT_TRUE(promotion.has_value());
  EXPECT_EQ(promotion->service, std::nullopt);
  EXPECT_EQ(promotion->after, PolicySettings{}.ageing_bound);
  sequence.promoted = true;
  EXPECT_LT(policy.KeyOf(sequence).level, policy.KeyOf(Generated(9)).level);
  EXPECT_EQ(policy.PromotionOf(sequence), std::nullopt);
}

}  // namespace
}  // namespace skipjack
