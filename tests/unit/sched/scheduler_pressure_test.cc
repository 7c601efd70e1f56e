// What happens when blocks or seats run out.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using testing::Range;
using testing::SchedulerHarness;

SchedulerConfig TightConfig() {
  SchedulerConfig config;
  config.max_batch_tokens = 32;
  config.max_sequences = 4;
  config.block_tokens = 4;
  config.kv_blocks = 8;
  config.context_length = 32;
  return config;
}

bool WasPreempted(const StepPlan& plan, SequenceId id) {
  return std::ranges::any_of(plan.preempted, [id](const Preemption& p) { return p.sequence == id; });
}

// Two sequences of 7 tokens and 16 to come: 2 blocks each, growing together to 4 + 4. The next block is not
// there.
TEST(SchedulerPressure, TheLastInOrderLosesItsKvAndComesBackInItsPlace) {
  SchedulerHarness harness(TightConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 7), 16, {.arrival = 1}).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 7), 16, {.arrival = 2}).ok());
  int steps = 0;
  while (!WasPreempted(harness.Plan(), 2)) {
    ASSERT_LT(++steps, 20);
    ASSERT_TRUE(harness.plan().preempted.empty());
    harness.Complete();
  }
  // Tokens 0..15 of both fill 4 blocks each; token 16 of the first needs a ninth.
  EXPECT_EQ(harness.SliceOf(1)->position, 16);
  EXPECT_EQ(harness.plan().preempted,
            (std::vector<Preemption>{
                {.sequence = 2, .tokens_lost = 16, .cause = PreemptionCause::kGrowth, .by = 1}}));
  EXPECT_EQ(harness.SliceOf(2), nullptr);
  harness.Complete();
  const auto generated = static_cast<std::int32_t>(harness.Generated(2).size());

  // A newcomer would fit, but the preempted one is ahead of it.
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 2, {.arrival = 3}).ok());
  harness.Plan();
  EXPECT_EQ(harness.plan().slices.size(), 1u);
  harness.Complete();
  EXPECT_EQ(harness.scheduler().Find(2)->phase, SequenceState::Phase::kWaiting);
  EXPECT_EQ(harness.scheduler().Find(2)->preemptions, 1);
  EXPECT_EQ(harness.scheduler().Find(2)->generated_tokens, generated);

  while (harness.SliceOf(2) == nullptr) ASSERT_TRUE(harness.Step());
  EXPECT_TRUE(harness.SliceOf(2)->sample || harness.SliceOf(2)->token_count > 1);
  EXPECT_EQ(harness.SliceOf(2)->position + harness.SliceOf(2)->token_count, 7 + generated)
      << "prompt and generated tokens are computed again";
  harness.Drain();
  EXPECT_EQ(harness.Generated(2).size(), 16u);
  EXPECT_EQ(harness.scheduler().Stats().preemptions, 1u);
}

TEST(SchedulerPressure, RecomputingIsNotAPrefixHit) {
  SchedulerHarness harness(TightConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 7), 16).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 7), 16).ok());
  harness.Drain();
  const SchedulerStats stats = harness.scheduler().Stats();
  EXPECT_GE(stats.preemptions, 1u);
  EXPECT_EQ(stats.prefix_hit_tokens, 0u);
  EXPECT_EQ(stats.prefix_queries_tokens, 14u);
  EXPECT_GT(stats.recomputed_tokens, 0u);
}

// With the prefix cache, what nobody needed meanwhile is taken back instead of computed again.
TEST(SchedulerPressure, BlocksThatSurvivedAreTakenBack) {
  SchedulerConfig config = TightConfig();
  config.max_sequences = 2;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 8), 12, {.priority = PriorityClass::kBatch}).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 3, {.priority = PriorityClass::kInteractive}).ok());
  harness.Step();
  ASSERT_TRUE(harness.Submit(3, Range(300, 4), 3, {.priority = PriorityClass::kRealtime}).ok());
  harness.Plan();
  ASSERT_TRUE(WasPreempted(harness.plan(), 1)) << "the seat is needed";
  harness.Complete();
  while (harness.SliceOf(1) == nullptr) ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.SliceOf(1)->position, 8);
  EXPECT_EQ(harness.scheduler().Find(1)->cached_tokens, 0);
  harness.Drain();
  EXPECT_EQ(harness.scheduler().Stats().recomputed_tokens, 0u);
}

// Prompts of 12 tokens in a pool for one and a half of them: one after the other, no chunk is ever thrown
// away.
TEST(SchedulerPressure, PromptsThatDoNotFitAreNotStarted) {
  SchedulerConfig config = TightConfig();
  config.kv_blocks = 6;
  config.max_batch_tokens = 4;
  SchedulerHarness harness(config);
  for (SequenceId id = 1; id <= 6; ++id) {
    ASSERT_TRUE(harness.Submit(id, Range(static_cast<TokenId>(100 * id), 14), 2).ok());
  }
  while (harness.Step()) EXPECT_LE(harness.scheduler().Stats().running, 1);
  EXPECT_EQ(harness.scheduler().Stats().preemptions, 0u);
  EXPECT_EQ(harness.scheduler().Stats().recomputed_tokens, 0u);
  EXPECT_TRUE(harness.Live().empty());
}

TEST(SchedulerPressure, NobodyOvertakesTheOneThatDoesNotFit) {
  SchedulerHarness harness(TightConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 14), 4).ok());
  harness.Step();
  ASSERT_TRUE(harness.Submit(2, Range(200, 20), 4).ok());  // 5 blocks; 4 are left
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 1).ok());
  harness.Plan();
  EXPECT_EQ(harness.plan().slices.size(), 1u);
  harness.Complete();
  while (harness.SliceOf(2) == nullptr) {
    ASSERT_TRUE(harness.Step());
    EXPECT_TRUE(harness.SliceOf(3) == nullptr || harness.SliceOf(2) != nullptr);
  }
  harness.Drain();
}

TEST(SchedulerPressure, RealtimeTakesASeatFromBatchOnly) {
  SchedulerHarness harness(TightConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 2), 4, {.priority = PriorityClass::kBatch, .arrival = 1}).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 2), 4, {.priority = PriorityClass::kBatch, .arrival = 2}).ok());
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 4, {.priority = PriorityClass::kRealtime, .arrival = 3}).ok());
  ASSERT_TRUE(
      harness.Submit(4, Range(400, 2), 4, {.priority = PriorityClass::kInteractive, .arrival = 4}).ok());
  harness.Step();
  ASSERT_EQ(harness.scheduler().Stats().running, 4);
  ASSERT_TRUE(harness.Submit(5, Range(500, 2), 4, {.priority = PriorityClass::kBatch, .arrival = 0}).ok());
  harness.Step();
  EXPECT_EQ(harness.scheduler().Stats().preemptions, 0u)
      << "an equal class pushes nobody aside, however early";
  ASSERT_TRUE(harness.Submit(6, Range(600, 2), 4, {.priority = PriorityClass::kRealtime, .arrival = 6}).ok());
  harness.Plan();
  EXPECT_EQ(harness.plan().preempted,
            (std::vector<Preemption>{
                {.sequence = 2, .tokens_lost = 3, .cause = PreemptionCause::kPriority, .by = 6}}))
      << "the last in order";
  EXPECT_NE(harness.SliceOf(6), nullptr);
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.scheduler().Stats().preemptions, 1u);
}

TEST(SchedulerPressure, NobodyIsPushedAsideInVain) {
  SchedulerConfig config = TightConfig();
  config.prefix_cache = false;
  SchedulerHarness harness(config);
  ASSERT_TRUE(
      harness.Submit(1, Range(100, 14), 4, {.priority = PriorityClass::kInteractive, .arrival = 1}).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 4, {.priority = PriorityClass::kBatch, .arrival = 2}).ok());
  harness.Step();
  // 6 of 8 blocks are in use. The newcomer needs 5: even with those of the batch sequence there are only 4.
  ASSERT_TRUE(
      harness.Submit(3, Range(300, 18), 2, {.priority = PriorityClass::kInteractive, .arrival = 3}).ok());
  harness.Plan();
  EXPECT_TRUE(harness.plan().preempted.empty());
  EXPECT_NE(harness.SliceOf(2), nullptr);
  harness.Complete();
  harness.Drain();
}

// The victim holds copies of blocks that were withdrawn, and somebody else has computed and published them
// anew: once pushed out, it would fit again at once. All growth is within the blocks at hand, so no reserve
// is in the way.
TEST(SchedulerPressure, NobodyComesBackInTheStepThatPushedItOut) {
  SchedulerConfig config = TightConfig();
  config.kv_blocks = 16;
  config.max_batch_tokens = 64;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 17), 4).ok());
  harness.Step();
  ASSERT_TRUE(harness.Submit(2, Range(100, 17), 4, {.priority = PriorityClass::kBatch}).ok());
  harness.Step([](std::vector<SliceOutcome>* outcomes) {
    outcomes->front().finished = true;
    outcomes->front().tainted = true;  // sequence 1
  });
  ASSERT_TRUE(harness.Submit(3, Range(100, 17), 4).ok());
  harness.Step();
  EXPECT_EQ(harness.SliceOf(3)->position, 0) << "withdrawn";
  ASSERT_TRUE(harness.Submit(4, Range(400, 28), 1).ok());  // 7 blocks of the 6 that are left
  harness.Plan();
  EXPECT_TRUE(WasPreempted(harness.plan(), 2));
  EXPECT_NE(harness.SliceOf(4), nullptr);
  EXPECT_EQ(harness.SliceOf(2), nullptr);
  harness.Complete();
  harness.Plan();
  ASSERT_NE(harness.SliceOf(2), nullptr);
  EXPECT_EQ(harness.SliceOf(2)->position, 16);
  harness.Complete();
  harness.Drain();
}

// However often it is hit, a sequence's reserve doubles, so that its comebacks are fewer each time.
TEST(SchedulerPressure, PreemptionsAreBoundedUnderHeavyOvercommit) {
  SchedulerConfig config;
  config.max_batch_tokens = 64;
  config.max_sequences = 16;
  config.block_tokens = 4;
  config.kv_blocks = 64;
  config.context_length = 256;
  config.prefix_cache = false;  // every loss is computed again
  SchedulerHarness harness(config);
  std::uint64_t useful = 0;
  for (SequenceId id = 1; id <= 16; ++id) {  // 16 x (20 + 100) tokens in room for 256: 7.5 times too much
    ASSERT_TRUE(harness.Submit(id, Range(static_cast<TokenId>(1000 * id), 20), 100).ok());
    useful += 119;
  }
  harness.Drain();
  const SchedulerStats stats = harness.scheduler().Stats();
  EXPECT_LE(stats.preemptions, 48u);
  EXPECT_LE(stats.recomputed_tokens, useful) << stats.preemptions;
  RecordProperty("preemptions", static_cast<int>(stats.preemptions));
  RecordProperty("recomputed_tokens", static_cast<int>(stats.recomputed_tokens));
}

// Least attained service: whoever has generated least goes first, and may push others aside.
class LeastServicePolicy final : public Policy {
 public:
  std::string_view name() const override { return "least-service"; }
  PolicyKey KeyOf(const SequenceSnapshot& sequence) const override {
    return {.level = sequence.generated_tokens / 4, .key = 0};
  }
  bool MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const override {
    return waiting.generated_tokens / 4 < running.generated_tokens / 4;
  }
};

TEST(SchedulerPressure, PoliciesMayChangeTheirMindAndPreempt) {
  SchedulerConfig config = TightConfig();
  config.max_sequences = 2;
  SchedulerHarness harness(config, std::make_unique<LeastServicePolicy>());
  ASSERT_TRUE(harness.Submit(1, Range(100, 2), 10, {.arrival = 1}).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 2), 3, {.arrival = 2}).ok());
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 3, {.arrival = 3}).ok());
  harness.Step();
  harness.Step();
  harness.Step();  // 2 has ended
  EXPECT_FALSE(harness.scheduler().Find(2).has_value());
  harness.Step();  // 1 has generated 4 and sinks a level
  ASSERT_TRUE(harness.Submit(4, Range(400, 2), 3, {.arrival = 4}).ok());
  harness.Plan();
  EXPECT_TRUE(WasPreempted(harness.plan(), 1));
  EXPECT_NE(harness.SliceOf(3), nullptr);
  EXPECT_NE(harness.SliceOf(4), nullptr);
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.Generated(1).size(), 10u);
}

// 40 answers of 40 tokens each have been seen. Prompts of 20 tokens take 5 blocks, and 15 at the end: two fit
// into 30 blocks, a third would be pushed out before long.
TEST(SchedulerFuture, NobodyIsLetInWhoIsExpectedToBePushedOut) {
  for (const bool looks : {true, false}) {
    SchedulerConfig config;
    config.max_sequences = 8;
    config.max_batch_tokens = 256;
    config.block_tokens = 4;
    config.kv_blocks = 30;
    config.context_length = 200;
    config.prefix_cache = false;
    config.future_admission = looks;
    SchedulerHarness harness(config);
    SequenceId next = 1;
    const auto end_at_40 = [&](std::vector<SliceOutcome>* outcomes) {
      for (SliceOutcome& outcome : *outcomes)
        outcome.finished = harness.Generated(outcome.sequence).size() == 39;
    };
    for (int i = 0; i < 40; ++i) {
      ASSERT_TRUE(harness.Submit(next++, Range(0, 20), 80).ok());
      while (harness.Step(end_at_40)) {
      }
    }
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(harness.Submit(next++, Range(0, 20), 80).ok());
    harness.Step(end_at_40);
    EXPECT_EQ(harness.scheduler().Stats().running, looks ? 2 : 3);
    while (harness.Step(end_at_40)) {
    }
    EXPECT_EQ(harness.scheduler().Stats().preemptions > 0, !looks);
  }
}

}  // namespace
}  // namespace skipjack
