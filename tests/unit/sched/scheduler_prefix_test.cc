// Who finds whose blocks, and when.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using testing::Range;
using testing::SchedulerHarness;

SchedulerConfig PrefixConfig() {
  SchedulerConfig config;
  config.max_batch_tokens = 32;
  config.max_sequences = 8;
  config.block_tokens = 4;
  config.kv_blocks = 64;
  config.context_length = 128;
  return config;
}

std::vector<TokenId> Join(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(SchedulerPrefix, AtLeastTheLastPromptTokenIsComputed) {
  SchedulerHarness harness(PrefixConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 12), 2).ok());
  harness.Drain();
  // Of 13 tokens, three full blocks are cached; of 12 only two may be used.
  ASSERT_TRUE(harness.Submit(2, Range(100, 12), 2).ok());
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(2)->position, 8);
  EXPECT_EQ(harness.SliceOf(2)->token_count, 4);
  EXPECT_TRUE(harness.SliceOf(2)->sample);
  harness.Complete();
  EXPECT_EQ(harness.scheduler().Find(2)->cached_tokens, 8);
  harness.Drain();
  ASSERT_TRUE(harness.Submit(3, Range(100, 13), 2).ok());
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(3)->position, 12);
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.scheduler().Stats().prefix_queries_tokens, 37u);
  EXPECT_EQ(harness.scheduler().Stats().prefix_hit_tokens, 20u);
}

TEST(SchedulerPrefix, AnswersAreReusedByTheNextTurn) {
  SchedulerHarness harness(PrefixConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 6), 7).ok());
  harness.Drain();
  const std::vector<TokenId> turn = Join(Join(Range(100, 6), harness.Generated(1)), Range(900, 5));
  ASSERT_TRUE(harness.Submit(2, turn, 1).ok());
  harness.Plan();
  // 6 + 7 tokens, the last of which was never computed: three full blocks.
  EXPECT_EQ(harness.SliceOf(2)->position, 12);
  harness.Complete();
}

TEST(SchedulerPrefix, OtherSaltsShareNothing) {
  SchedulerHarness harness(PrefixConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 12), 2, {.salt = "a"}).ok());
  harness.Drain();
  ASSERT_TRUE(harness.Submit(2, Range(100, 12), 2, {.salt = "b"}).ok());
  ASSERT_TRUE(harness.Submit(3, Range(100, 12), 2, {.salt = ""}).ok());
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(2)->position, 0);
  EXPECT_EQ(harness.SliceOf(3)->position, 0);
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.scheduler().Stats().prefix_hit_tokens, 0u);
}

TEST(SchedulerPrefix, SwitchedOffNothingIsSharedOrKept) {
  SchedulerConfig config = PrefixConfig();
  config.prefix_cache = false;
  SchedulerHarness harness(config);
  for (SequenceId id = 1; id <= 3; ++id) ASSERT_TRUE(harness.Submit(id, Range(100, 9), 2).ok());
  harness.Plan();
  EXPECT_EQ(harness.plan().slices.size(), 3u);
  harness.Complete();
  harness.Drain();
  EXPECT_EQ(harness.scheduler().Stats().blocks_free, 64);
  EXPECT_EQ(harness.scheduler().Stats().prefix_queries_tokens, 0u);
}

TEST(SchedulerPrefix, EqualPromptsInOneStepAreComputedOnce) {
  SchedulerHarness harness(PrefixConfig());
  for (SequenceId id = 1; id <= 4; ++id) {
    ASSERT_TRUE(harness.Submit(id, Join(Range(100, 16), Range(static_cast<TokenId>(1000 * id), 3)), 4).ok());
  }
  harness.Plan();
  ASSERT_EQ(harness.plan().slices.size(), 1u)
      << "the others wait for the 16 tokens they share with the first";
  harness.Complete();
  harness.Plan();
  ASSERT_EQ(harness.plan().slices.size(), 4u);
  for (SequenceId id = 2; id <= 4; ++id) {
    EXPECT_EQ(harness.SliceOf(id)->position, 16);
    EXPECT_EQ(harness.SliceOf(id)->token_count, 3);
  }
  harness.Complete();
  harness.Drain();
}

TEST(SchedulerPrefix, NobodyWaitsForASmallSharedPart) {
  SchedulerConfig config = PrefixConfig();
  config.max_batch_tokens = 64;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Join(Range(100, 4), Range(1000, 20)), 4).ok());
  ASSERT_TRUE(harness.Submit(2, Join(Range(100, 4), Range(2000, 20)), 4).ok());
  harness.Plan();
  EXPECT_EQ(harness.plan().slices.size(), 2u) << "4 tokens of 64 are not worth a step";
  harness.Complete();
  // What both computed is kept once.
  const auto blocks = harness.Plan().block_tables;
  EXPECT_EQ(blocks[0], blocks[static_cast<std::size_t>(harness.SliceOf(2)->table_offset)]);
  harness.Complete();
  harness.Drain();
}

TEST(SchedulerPrefix, WhoWaitsForACancelledSequenceGoesOn) {
  SchedulerHarness harness(PrefixConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 20), 4).ok());
  ASSERT_TRUE(harness.Submit(2, Range(100, 20), 4).ok());
  harness.Plan();
  ASSERT_EQ(harness.SliceOf(2), nullptr);
  harness.Cancel(1);
  harness.Complete();
  harness.Plan();
  ASSERT_NE(harness.SliceOf(2), nullptr);
  EXPECT_EQ(harness.SliceOf(2)->position, 0) << "the cancelled sequence published nothing";
  harness.Complete();
  harness.Drain();
}

TEST(SchedulerPrefix, ThoseBehindAWaitingFollowerGoOn) {
  SchedulerHarness harness(PrefixConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 20), 4).ok());
  ASSERT_TRUE(harness.Submit(2, Range(100, 20), 4).ok());
  ASSERT_TRUE(harness.Submit(3, Range(500, 20), 4).ok());
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(2), nullptr);
  ASSERT_NE(harness.SliceOf(3), nullptr);
  EXPECT_EQ(harness.SliceOf(3)->token_count, 12);
  harness.Complete();
  harness.Plan();
  EXPECT_EQ(harness.plan().slices[1].sequence, 2u) << "and it is ahead of them again";
  harness.Complete();
  harness.Drain();
}

// The place of a waiting follower is not given away: what is left of pool and seats behind it is less by its
// needs.
TEST(SchedulerPrefix, AWaitingFollowerKeepsItsRoom) {
  SchedulerConfig config = PrefixConfig();
  config.kv_blocks = 17;
  config.context_length = 64;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 24), 1).ok());  // 6 blocks
  ASSERT_TRUE(harness.Submit(2, Range(100, 24), 1).ok());  // waits for 5 of them; 6 are set aside
  ASSERT_TRUE(harness.Submit(3, Range(500, 24), 1).ok());  // 6 of 11 are there, but only 5 are not spoken for
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(2), nullptr);
  EXPECT_EQ(harness.SliceOf(3), nullptr);
  harness.Complete();
  harness.Plan();
  EXPECT_NE(harness.SliceOf(2), nullptr);
  EXPECT_NE(harness.SliceOf(3), nullptr);
  harness.Complete();
  harness.Drain();
}

TEST(SchedulerPrefix, NothingOfATaintedSequenceIsFound) {
  SchedulerHarness harness(PrefixConfig());
  ASSERT_TRUE(harness.Submit(1, Range(100, 40), 4).ok());
  harness.Step();  // 32 tokens are computed and published
  EXPECT_EQ(harness.scheduler().kv().index().size(), 8);
  harness.Step([](std::vector<SliceOutcome>* outcomes) {
    outcomes->front().finished = true;
    outcomes->front().tainted = true;
  });
  EXPECT_EQ(harness.scheduler().kv().index().size(), 0);
  EXPECT_EQ(harness.scheduler().Stats().blocks_free, 64);
  ASSERT_TRUE(harness.Submit(2, Range(100, 40), 4).ok());
  harness.Plan();
  EXPECT_EQ(harness.SliceOf(2)->position, 0);
  harness.Complete();
}

// A pool full of cached blocks is as good as an empty one, and hits still win over eviction.
TEST(SchedulerPrefix, CachedBlocksGiveWay) {
  SchedulerConfig config = PrefixConfig();
  config.kv_blocks = 16;
  config.context_length = 64;
  SchedulerHarness harness(config);
  for (SequenceId id = 1; id <= 20; ++id) {
    ASSERT_TRUE(harness.Submit(id, Range(static_cast<TokenId>(100 * (id % 5)), 13), 6).ok());
    harness.Drain();
  }
  EXPECT_EQ(harness.scheduler().Stats().blocks_used, 0);
  EXPECT_GT(harness.scheduler().Stats().blocks_cached, 10);
}

}  // namespace
}  // namespace skipjack
