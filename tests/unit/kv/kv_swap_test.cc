// Contents on their way between device, host memory and disk. A little memory stands in for the blocks of all
// tiers, so that what a table finds can be compared with what was written.
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "kv/kv_manager.h"

namespace skipjack {
namespace {

using Tokens = std::vector<TokenId>;

constexpr std::int32_t kBlockTokens = 4;

Tokens Range(TokenId first, int count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class KvSwapTest : public testing::Test {
 protected:
  void Make(std::int32_t device, std::int32_t host, std::int32_t disk, bool prefix_cache = true) {
    kv_ = std::make_unique<KvManager>(KvConfig{.blocks = device,
                                               .block_tokens = kBlockTokens,
                                               .prefix_cache = prefix_cache,
                                               .host_blocks = host,
                                               .disk_blocks = disk});
    memory_.assign(static_cast<std::size_t>(device + host + disk), {});
  }

  // Computes all of `tokens` into a new table.
  BlockTable Compute(const Tokens& tokens) {
    BlockTable table = kv_->Open("");
    kv_->Match(&table, tokens, &match_);
    EXPECT_EQ(kv_->Admit(&table, match_, static_cast<std::int32_t>(tokens.size())), Admitted::kReady);
    CopyAll();
    for (std::size_t i = match_.blocks.size(); i < tokens.size() / kBlockTokens; ++i) {
      memory_[static_cast<std::size_t>(table.blocks()[i])] = BlockOf(tokens, i);
    }
    kv_->Publish(&table, tokens);
    return table;
  }

  // Comes back for `tokens`; how it was admitted.
  Admitted Return(BlockTable* table, const Tokens& tokens, CopyTime time = CopyTime::kBefore) {
    kv_->Match(table, tokens, &match_);
    return kv_->Admit(table, match_, static_cast<std::int32_t>(tokens.size()), time);
  }

  void Copy(const BlockCopy& copy) {
    memory_[static_cast<std::size_t>(copy.to)] = memory_[static_cast<std::size_t>(copy.from)];
  }

  // Makes all copies that are due, in order, and settles them.
  void CopyAll(const std::vector<BlockId>& failed = {}) {
    std::vector<BlockCopy> before;
    std::vector<BlockCopy> beside;
    kv_->TakeCopies(&before, &beside);
    for (const BlockCopy& copy : before) Copy(copy);
    for (const BlockCopy& copy : beside) Copy(copy);
    for (const BlockId block : failed) memory_[static_cast<std::size_t>(block)] = {};
    kv_->Settle(failed);
  }

  std::vector<BlockCopy> Beside() {
    std::vector<BlockCopy> before;
    std::vector<BlockCopy> beside;
    kv_->TakeCopies(&before, &beside);
    EXPECT_TRUE(before.empty());
    for (const BlockCopy& copy : beside) Copy(copy);
    return beside;
  }

  static Tokens BlockOf(const Tokens& tokens, std::size_t block) {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(block * kBlockTokens);
    return {first, first + kBlockTokens};
  }

  void ExpectContents(const BlockTable& table, const Tokens& tokens, std::size_t blocks) {
    for (std::size_t i = 0; i < blocks; ++i) {
      EXPECT_EQ(memory_[static_cast<std::size_t>(table.blocks()[i])], BlockOf(tokens, i)) << "block " << i;
    }
  }

  void Check(std::initializer_list<const BlockTable*> tables) {
    const std::vector<const BlockTable*> all(tables);
    const Status status = kv_->CheckInvariants(all);
    EXPECT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(kv_->misuses(), 0);
  }

  std::unique_ptr<KvManager> kv_;
  std::vector<Tokens> memory_;  // [blocks of all tiers]
  PrefixMatch match_;
};

TEST_F(KvSwapTest, WhatSomebodyWaitsForIsRescuedBeforeTheStep) {
  Make(2, 2, 0);
  const Tokens a = Range(0, 8);
  BlockTable table = Compute(a);
  kv_->Release(&table, /*wanted=*/true);
  BlockTable other = Compute(Range(100, 8));  // takes both device blocks
  EXPECT_EQ(kv_->swap_counts().out, 2u);
  EXPECT_EQ(kv_->swap_counts().before, 2u);
  Check({&table, &other});
  kv_->Release(&other);

  EXPECT_EQ(Return(&table, a), Admitted::kReady);
  EXPECT_EQ(match_.swapped, 2);
  CopyAll();
  ExpectContents(table, a, 2);
  EXPECT_EQ(kv_->swap_space().host().free(), 2);
  Check({&table, &other});
}

TEST_F(KvSwapTest, SwappingOutFreesTheLastBlocksFirstWhenTheCopiesHaveEnded) {
  Make(4, 4, 0);
  const Tokens a = Range(0, 12);
  BlockTable table = Compute(a);
  const std::vector<BlockId> held(table.blocks().begin(), table.blocks().end());
  kv_->Release(&table, true);
  EXPECT_EQ(kv_->ready(), 1);
  EXPECT_EQ(kv_->SwapOut(&table, a, 2), 2);
  const std::vector<BlockCopy> copies = Beside();
  ASSERT_EQ(copies.size(), 2u);
  EXPECT_EQ(copies[0].from, held[2]);
  EXPECT_EQ(copies[1].from, held[1]);
  EXPECT_EQ(kv_->pool().free(), 1) << "both ends stay put until the copies have ended";
  Check({&table});
  kv_->Settle({});
  EXPECT_EQ(kv_->pool().free(), 3);
  EXPECT_EQ(kv_->ready(), 3);
  Check({&table});

  // The rest of it is where it was.
  EXPECT_EQ(Return(&table, a, CopyTime::kBeside), Admitted::kLoading);
  EXPECT_EQ(table.blocks()[0], held[0]);
  Beside();
  kv_->Settle({});
  ExpectContents(table, a, 3);
  Check({&table});
}

TEST_F(KvSwapTest, ASequenceThatSharesArrivingBlocksTakesTheSameOnes) {
  Make(8, 4, 0);
  const Tokens a = Range(0, 8);
  BlockTable first = Compute(a);
  kv_->Release(&first, true);
  EXPECT_EQ(kv_->SwapOut(&first, a, 8), 2);
  CopyAll();

  BlockTable second = kv_->Open("");
  EXPECT_EQ(Return(&first, a, CopyTime::kBeside), Admitted::kLoading);
  EXPECT_EQ(Return(&second, a, CopyTime::kBeside), Admitted::kLoading);
  EXPECT_EQ(kv_->swap_counts().in, 2u) << "one copy for both";
  EXPECT_EQ(first.blocks()[0], second.blocks()[0]);
  Check({&first, &second});
  CopyAll();
  ExpectContents(second, a, 2);
  Check({&first, &second});
}

TEST_F(KvSwapTest, ComingBackAheadUsesFreeBlocksOnlyAndStartsAtTheFront) {
  Make(4, 4, 0);
  const Tokens a = Range(0, 12);
  BlockTable table = Compute(a);
  kv_->Release(&table, true);
  EXPECT_EQ(kv_->SwapOut(&table, a, 8), 3);
  CopyAll();
  BlockTable other = Compute(Range(100, 8));
  EXPECT_EQ(kv_->SwapIn(&table, a, 8), 2);
  CopyAll();
  EXPECT_EQ(Return(&table, Range(0, 8)), Admitted::kReady);
  EXPECT_EQ(match_.swapped, 0);
  ExpectContents(table, a, 2);
  Check({&table, &other});
}

TEST_F(KvSwapTest, AnAbortDuringACopyLeavesNothingBehind) {
  for (const bool prefix_cache : {true, false}) {
    SCOPED_TRACE(prefix_cache);
    Make(4, 4, 0, prefix_cache);
    const Tokens a = Range(0, 12);
    BlockTable table = Compute(a);
    kv_->Release(&table, true);
    kv_->SwapOut(&table, a, 8);
    kv_->Forsake(&table, a);  // while they are being copied out
    CopyAll();
    kv_->Forsake(&table, a);
    Check({&table});
    if (!prefix_cache) {
      EXPECT_EQ(kv_->pool().free(), 4);
      EXPECT_EQ(kv_->swap_space().host().free(), 4);
    }

    BlockTable again = Compute(a);
    kv_->Release(&again, true);
    kv_->SwapOut(&again, a, 8);
    CopyAll();
    Return(&again, a, CopyTime::kBeside);
    kv_->Release(&again);  // while they are being copied in
    CopyAll();
    Check({&table, &again});
    EXPECT_EQ(kv_->pool().used(), 0);
  }
}

TEST_F(KvSwapTest, WhatCannotBeReadIsForgottenAndComputedAgain) {
  Make(4, 0, 4);
  const Tokens a = Range(0, 12);
  BlockTable table = Compute(a);
  kv_->Release(&table, true);
  EXPECT_EQ(kv_->SwapOut(&table, a, 8), 3);
  CopyAll();
  EXPECT_EQ(Return(&table, a), Admitted::kLoading) << "what lies on disk never makes a step wait";
  const BlockId second = table.blocks()[1];
  CopyAll({second});
  EXPECT_TRUE(kv_->IsBroken(table));
  kv_->Release(&table, true);
  kv_->Match(&table, a, &match_);
  EXPECT_EQ(match_.blocks.size(), 1u) << "the block before it is fine";
  EXPECT_EQ(kv_->pool().cached(), 2);
  kv_->Prune();
  EXPECT_EQ(kv_->pool().cached(), 1) << "the block after it can not be found any more";
  EXPECT_EQ(kv_->swap_counts().failed, 1u);
  Check({&table});
}

TEST_F(KvSwapTest, WhatCannotBeWrittenStaysWhereItWas) {
  Make(4, 0, 4);
  const Tokens a = Range(0, 8);
  BlockTable table = Compute(a);
  kv_->Release(&table, true);
  EXPECT_EQ(kv_->SwapOut(&table, a, 8), 2);
  const std::vector<BlockCopy> copies = Beside();
  kv_->Settle(std::vector<BlockId>{copies[0].to, copies[1].to});
  EXPECT_EQ(kv_->swap_space().disk().free(), 4);
  EXPECT_EQ(Return(&table, a), Admitted::kReady);
  ExpectContents(table, a, 2);
  Check({&table});
}

TEST_F(KvSwapTest, AFullHostPoolGivesUpWhatNobodyWaitsForAndThenNothing) {
  Make(4, 2, 0);
  BlockTable stale = Compute(Range(200, 8));
  kv_->Release(&stale);
  EXPECT_EQ(kv_->SwapOutUnwanted(8), 2);
  CopyAll();
  EXPECT_EQ(kv_->swap_space().host().free(), 0);

  const Tokens a = Range(0, 16);
  BlockTable table = Compute(a);
  kv_->Release(&table, true);
  EXPECT_TRUE(kv_->swap_space().HasRoom());
  EXPECT_EQ(kv_->SwapOut(&table, a, 8), 2) << "the stale prefix made room for two";
  CopyAll();
  EXPECT_FALSE(kv_->swap_space().HasRoom());
  EXPECT_EQ(kv_->SwapOut(&table, a, 8), 0);
  kv_->Match(&stale, Range(200, 8), &match_);
  EXPECT_TRUE(match_.blocks.empty());
  Check({&stale, &table});
}

TEST_F(KvSwapTest, HostMemoryIsKeptFreeByCopyingToDisk) {
  Make(4, 2, 4);
  const Tokens a = Range(0, 8);
  BlockTable table = Compute(a);
  kv_->Release(&table, true);
  kv_->SwapOut(&table, a, 8);
  CopyAll();
  EXPECT_EQ(kv_->swap_space().host().free(), 0);
  EXPECT_EQ(kv_->Demote(/*free=*/1, /*limit=*/8), 1);
  CopyAll();
  EXPECT_EQ(kv_->swap_space().host().free(), 1);
  EXPECT_EQ(kv_->swap_space().disk().free(), 3);
  EXPECT_EQ(Return(&table, a), Admitted::kLoading);
  CopyAll();
  ExpectContents(table, a, 2);
  EXPECT_EQ(kv_->swap_space().disk().free(), 4);
  Check({&table});
}

TEST_F(KvSwapTest, WithoutSharingASequenceFindsOnlyItsOwnBlocks) {
  Make(8, 4, 0, /*prefix_cache=*/false);
  const Tokens a = Range(0, 8);
  BlockTable first = Compute(a);
  BlockTable second = kv_->Open("");
  kv_->Match(&second, a, &match_);
  EXPECT_TRUE(match_.blocks.empty());
  kv_->Release(&first, true);
  kv_->Match(&second, a, &match_);
  EXPECT_TRUE(match_.blocks.empty());
  EXPECT_EQ(Return(&first, a), Admitted::kReady);
  EXPECT_EQ(match_.blocks.size(), 2u);
  kv_->Release(&first);
  EXPECT_EQ(kv_->pool().free(), 8) << "nobody can come back for it";
  Check({&first, &second});
}

TEST_F(KvSwapTest, WhatIsComputedAgainReplacesTheSwappedCopy) {
  Make(8, 4, 0);
  const Tokens a = Range(0, 8);
  BlockTable table = Compute(a);
  kv_->Release(&table, true);
  kv_->SwapOut(&table, a, 8);
  CopyAll();
  BlockTable other = kv_->Open("");
  match_ = {};
  ASSERT_EQ(kv_->Admit(&other, match_, 8), Admitted::kReady);
  for (std::size_t i = 0; i < 2; ++i) memory_[static_cast<std::size_t>(other.blocks()[i])] = BlockOf(a, i);
  kv_->Publish(&other, a);
  EXPECT_EQ(kv_->swap_space().host().free(), 4);
  EXPECT_EQ(Return(&table, a), Admitted::kReady);
  EXPECT_EQ(match_.swapped, 0);
  ExpectContents(table, a, 2);
  Check({&table, &other});
}

}  // namespace
}  // namespace skipjack
