#include "kv/kv_manager.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

using Tokens = std::vector<TokenId>;

Tokens Range(TokenId first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens Join(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class KvManagerTest : public testing::Test {
 protected:
  // Admits `tokens` with whatever prefix is cached; the number of blocks that were.
  std::int32_t Admit(BlockTable* table, const Tokens& tokens) {
    kv_.Match(table, tokens, &match_);
    EXPECT_EQ(kv_.Admit(table, match_, static_cast<std::int32_t>(tokens.size())), Admitted::kReady);
    return static_cast<std::int32_t>(match_.blocks.size());
  }

  void Check(std::initializer_list<const BlockTable*> tables) {
    const std::vector<const BlockTable*> all(tables);
    const Status status = kv_.CheckInvariants(all);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  KvManager kv_{KvConfig{.blocks = 6, .block_tokens = 4, .prefix_cache = true}};
  PrefixMatch match_;
};

TEST_F(KvManagerTest, BlocksForRoundsUp) {
  EXPECT_EQ(kv_.BlocksFor(0), 0);
  EXPECT_EQ(kv_.BlocksFor(1), 1);
  EXPECT_EQ(kv_.BlocksFor(4), 1);
  EXPECT_EQ(kv_.BlocksFor(5), 2);
}

TEST_F(KvManagerTest, ReserveIsAllOrNothing) {
  BlockTable table = kv_.Open("");
  EXPECT_TRUE(kv_.Reserve(&table, 9));
  EXPECT_EQ(table.size(), 3);
  EXPECT_TRUE(kv_.Reserve(&table, 12)) << "the third block still has room";
  EXPECT_EQ(table.size(), 3);
  EXPECT_FALSE(kv_.Reserve(&table, 25));
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(kv_.available(), 3);
  Check({&table});
}

TEST_F(KvManagerTest, TableGivesItsBlocksBackWhenItGoes) {
  {
    BlockTable table = kv_.Open("");
    ASSERT_TRUE(kv_.Reserve(&table, 24));
    BlockTable moved = std::move(table);
    EXPECT_EQ(moved.size(), 6);
    EXPECT_EQ(kv_.available(), 0);
    BlockTable other = kv_.Open("");
    other = std::move(moved);
    EXPECT_EQ(other.size(), 6);
    Check({&other});
  }
  EXPECT_EQ(kv_.pool().free(), 6);
  EXPECT_EQ(kv_.index().roots(), 0);
  Check({});
}

TEST_F(KvManagerTest, OnlyPublishedBlocksAreFound) {
  const Tokens prompt = Range(0, 10);
  BlockTable a = kv_.Open("");
  EXPECT_EQ(Admit(&a, prompt), 0);
  BlockTable b = kv_.Open("");
  kv_.Match(&b, prompt, &match_);
  EXPECT_TRUE(match_.blocks.empty()) << "a's blocks are reserved, but no step has filled them";

  kv_.Publish(&a, std::span(prompt).first(7));
  kv_.Match(&b, prompt, &match_);
  EXPECT_EQ(match_.blocks.size(), 1u) << "only the first block is full";
  kv_.Publish(&a, prompt);
  EXPECT_EQ(Admit(&b, prompt), 2);
  EXPECT_EQ(b.blocks()[0], a.blocks()[0]);
  EXPECT_EQ(b.blocks()[1], a.blocks()[1]);
  EXPECT_NE(b.blocks()[2], a.blocks()[2]) << "the block in work is never shared";
  Check({&a, &b});
}

TEST_F(KvManagerTest, OtherSaltsShareNothing) {
  const Tokens prompt = Range(0, 8);
  BlockTable a = kv_.Open("tenant a");
  Admit(&a, prompt);
  kv_.Publish(&a, prompt);
  BlockTable b = kv_.Open("tenant b");
  EXPECT_EQ(Admit(&b, prompt), 0);
  kv_.Publish(&b, prompt);
  Check({&a, &b});
}

TEST_F(KvManagerTest, UnpublishedBlocksAreFreeAfterRelease) {
  const Tokens prompt = Range(0, 12);
  BlockTable a = kv_.Open("");
  Admit(&a, prompt);
  kv_.Publish(&a, std::span(prompt).first(8));
  const std::uint64_t epoch = a.epoch();
  kv_.Release(&a);
  EXPECT_NE(a.epoch(), epoch);
  EXPECT_EQ(kv_.pool().cached(), 2);
  EXPECT_EQ(kv_.pool().free(), 4);
  EXPECT_EQ(Admit(&a, prompt), 2);
  Check({&a});
}

TEST_F(KvManagerTest, TheSameTokensComputedTwiceEndUpInOneBlock) {
  const Tokens prompt = Range(0, 9);
  BlockTable a = kv_.Open("");
  BlockTable b = kv_.Open("");
  Admit(&a, prompt);
  Admit(&b, prompt);
  kv_.Publish(&a, prompt);
  kv_.Publish(&b, prompt);
  EXPECT_EQ(a.blocks()[0], b.blocks()[0]);
  EXPECT_EQ(a.blocks()[1], b.blocks()[1]);
  EXPECT_NE(a.blocks()[2], b.blocks()[2]);
  EXPECT_EQ(kv_.pool().used(), 4);
  Check({&a, &b});
}

// Two chains 0-1-2 and 0-3 (by block contents). The pool is short of one block after another: leaves go
// first, the least recently used chain before the other, the shared root last.
TEST_F(KvManagerTest, ChainsAreEvictedFromTheirLeaves) {
  const Tokens root = Range(0, 4);
  const Tokens first = Join(root, Range(10, 8));
  const Tokens second = Join(root, Range(20, 4));
  {
    BlockTable a = kv_.Open("");
    Admit(&a, first);
    kv_.Publish(&a, first);
    BlockTable b = kv_.Open("");
    EXPECT_EQ(Admit(&b, second), 1);
    kv_.Publish(&b, second);
    kv_.Release(&a);
    kv_.Release(&b);
  }
  EXPECT_EQ(kv_.pool().cached(), 4);
  EXPECT_EQ(kv_.pool().free(), 2);

  BlockTable probe = kv_.Open("");
  BlockTable probe_second = kv_.Open("");
  BlockTable filler = kv_.Open("other");
  const auto matched = [&](BlockTable* table, const Tokens& tokens) {
    kv_.Match(table, tokens, &match_);
    return match_.blocks.size();
  };
  const std::vector<std::pair<std::size_t, std::size_t>> expected = {{3, 2}, {3, 2}, {2, 2},
                                                                     {1, 2}, {1, 1}, {0, 0}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(kv_.Reserve(&filler, static_cast<std::int32_t>(4 * (i + 1))));
    EXPECT_EQ(matched(&probe, first), expected[i].first) << i;
    EXPECT_EQ(matched(&probe_second, second), expected[i].second) << i;
    Check({&probe, &probe_second, &filler});
  }
}

TEST_F(KvManagerTest, ReferencedBlocksAreNeverEvicted) {
  const Tokens prompt = Range(0, 8);
  BlockTable a = kv_.Open("");
  Admit(&a, prompt);
  kv_.Publish(&a, prompt);
  BlockTable filler = kv_.Open("");
  EXPECT_FALSE(kv_.Reserve(&filler, 20));
  EXPECT_TRUE(kv_.Reserve(&filler, 16));
  BlockTable probe = kv_.Open("");
  kv_.Match(&probe, prompt, &match_);
  EXPECT_EQ(match_.blocks.size(), 2u);
  Check({&a, &filler, &probe});
}

TEST_F(KvManagerTest, AdmitCountsTheCachedBlocksItTakes) {
  const Tokens prompt = Range(0, 8);
  BlockTable a = kv_.Open("");
  Admit(&a, prompt);
  kv_.Publish(&a, prompt);
  kv_.Release(&a);
  BlockTable filler = kv_.Open("");
  ASSERT_TRUE(kv_.Reserve(&filler, 12));  // 1 free and 2 cached are left

  const Tokens longer = Join(prompt, Range(50, 8));
  kv_.Match(&a, longer, &match_);
  EXPECT_EQ(match_.unreferenced, 2);
  EXPECT_EQ(kv_.Admit(&a, match_, 16), Admitted::kNo) << "two matched blocks and two new ones do not fit in three";
  EXPECT_EQ(a.size(), 0);
  EXPECT_EQ(kv_.Admit(&a, match_, 12), Admitted::kReady);
  EXPECT_EQ(kv_.available(), 0);
  Check({&a, &filler});
}

TEST_F(KvManagerTest, WithdrawnBlocksAndWhatFollowsThemAreNotFound) {
  const Tokens prompt = Range(0, 8);
  const Tokens longer = Join(prompt, Range(30, 4));
  BlockTable a = kv_.Open("");
  Admit(&a, prompt);
  kv_.Publish(&a, prompt);
  BlockTable b = kv_.Open("");
  ASSERT_EQ(Admit(&b, longer), 2);
  kv_.Withdraw(a);
  kv_.Publish(&b, longer);  // b goes on with what it has, but nobody may follow it
  BlockTable probe = kv_.Open("");
  kv_.Match(&probe, longer, &match_);
  EXPECT_TRUE(match_.blocks.empty());
  Check({&a, &b, &probe});
  kv_.Release(&a);
  kv_.Release(&b);
  EXPECT_EQ(kv_.pool().free(), 6);
  Check({&a, &b, &probe});
}

TEST_F(KvManagerTest, WithoutPrefixCacheNothingIsKept) {
  KvManager kv(KvConfig{.blocks = 4, .block_tokens = 4, .prefix_cache = false});
  const Tokens prompt = Range(0, 8);
  BlockTable a = kv.Open("");
  ASSERT_TRUE(kv.Reserve(&a, 8));
  kv.Publish(&a, prompt);
  BlockTable b = kv.Open("");
  kv.Match(&b, prompt, &match_);
  EXPECT_TRUE(match_.blocks.empty());
  kv.Release(&a);
  EXPECT_EQ(kv.pool().free(), 4);
}

TEST_F(KvManagerTest, ReleasePreviewCountsWhatWouldBecomeAvailable) {
  const Tokens root = Range(0, 4);
  const Tokens first = Join(root, Range(10, 4));
  const Tokens second = Join(root, Range(20, 8));
  BlockTable a = kv_.Open("");
  Admit(&a, first);
  kv_.Publish(&a, first);
  BlockTable b = kv_.Open("");
  Admit(&b, second);
  kv_.Publish(&b, second);

  ReleasePreview preview(kv_);
  preview.Start(PrefixMatch{});
  EXPECT_EQ(preview.Add(b), 2) << "the root is still a's";
  EXPECT_EQ(preview.Add(a), 4);
  preview.Start(PrefixMatch{});
  EXPECT_EQ(preview.Add(a), 1);
  // Somebody who continues the root gains nothing from its being freed.
  BlockTable probe = kv_.Open("");
  kv_.Match(&probe, root, &match_);
  ASSERT_EQ(match_.blocks.size(), 1u);
  preview.Start(match_);
  EXPECT_EQ(preview.Add(b), 2);
  EXPECT_EQ(preview.Add(a), 3);
  Check({&a, &b, &probe});
}

}  // namespace
}  // namespace skipjack
