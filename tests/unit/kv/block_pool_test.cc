#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <vector>

namespace skipjack {
namespace {

TEST(BlockPool, HandsOutEveryBlockOnce) {
  BlockPool pool(4);
  std::vector<BlockId> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(pool.TakeFree());
  EXPECT_EQ(pool.TakeFree(), kNoBlock);
  std::ranges::sort(taken);
  EXPECT_EQ(taken, (std::vector<BlockId>{0, 1, 2, 3}));
  EXPECT_EQ(pool.used(), 4);
  EXPECT_EQ(pool.free(), 0);
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

TEST(BlockPool, LastReferenceDecidesWhereABlockGoes) {
  BlockPool pool(2);
  const BlockId block = pool.TakeFree();
  pool.AddReference(block);
  pool.Release(block, Retention::kCached);
  EXPECT_EQ(pool.References(block), 1);
  EXPECT_FALSE(pool.IsCached(block));
  pool.Release(block, Retention::kCached);
  EXPECT_TRUE(pool.IsCached(block));
  EXPECT_EQ(pool.cached(), 1);
  EXPECT_EQ(pool.used(), 0);

  pool.AddReference(block);  // a prefix hit
  EXPECT_EQ(pool.cached(), 0);
  pool.Release(block, Retention::kNone);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

TEST(BlockPool, CachedBlocksLeaveInOrderOfRelease) {
  BlockPool pool(3);
  const BlockId a = pool.TakeFree();
  const BlockId b = pool.TakeFree();
  const BlockId c = pool.TakeFree();
  for (const BlockId block : {b, a, c}) pool.Release(block, Retention::kCached);
  pool.AddReference(b);  // used again: the most recent once it is released
  pool.Release(b, Retention::kCached);
  EXPECT_EQ(pool.TakeLeastRecent(), a);
  EXPECT_EQ(pool.TakeLeastRecent(), c);
  EXPECT_EQ(pool.TakeLeastRecent(), b);
  EXPECT_EQ(pool.TakeLeastRecent(), kNoBlock);
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

// Those whose owner waits to take them back go last, however long ago they were released.
TEST(BlockPool, WantedBlocksLeaveAfterAllOthers) {
  BlockPool pool(4);
  const BlockId a = pool.TakeFree();
  const BlockId b = pool.TakeFree();
  const BlockId c = pool.TakeFree();
  const BlockId shared = pool.TakeFree();
  pool.AddReference(shared);
  pool.Release(shared, Retention::kWanted);
  pool.Release(b, Retention::kWanted);
  pool.Release(a, Retention::kCached);
  pool.Release(shared, Retention::kCached);  // the other holder does not want it, the first one still does
  pool.Release(c, Retention::kCached);
  EXPECT_EQ(pool.cached(), 4);
  EXPECT_TRUE(pool.CheckInvariants().ok());
  EXPECT_EQ(pool.TakeLeastRecent(), a);
  EXPECT_EQ(pool.TakeLeastRecent(), c);
  EXPECT_EQ(pool.TakeLeastRecent(), b);
  pool.AddReference(shared);  // taken back
  pool.Release(b, Retention::kWanted);
  pool.Release(shared, Retention::kCached);
  EXPECT_EQ(pool.TakeLeastRecent(), shared) << "nobody waits for it any more";
  EXPECT_EQ(pool.TakeLeastRecent(), b);
  EXPECT_TRUE(pool.CheckInvariants().ok());
}

TEST(BlockPool, CachedBlocksAreNotFree) {
  BlockPool pool(1);
  const BlockId block = pool.TakeFree();
  pool.Release(block, Retention::kCached);
  EXPECT_EQ(pool.TakeFree(), kNoBlock);
  EXPECT_EQ(pool.TakeLeastRecent(), block);
}

TEST(BlockPool, MisuseIsReportedAndChangesNothing) {
  BlockPool pool(2);
  const BlockId block = pool.TakeFree();
  pool.Release(block, Retention::kNone);
  pool.Release(block, Retention::kNone);
  pool.AddReference(block);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.misuses(), 2);
  EXPECT_FALSE(pool.CheckInvariants().ok());
}

// Against a model made of standard containers.
TEST(BlockPool, RandomOperationsMatchAModel) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    const int total = 1 + static_cast<int>(random() % 12);
    BlockPool pool(total);
    std::map<BlockId, int> references;
    std::deque<BlockId> cached;  // oldest first
    for (int i = 0; i < 2000; ++i) {
      const int free = total - static_cast<int>(references.size() + cached.size());
      switch (random() % 4) {
        case 0: {
          const BlockId block = pool.TakeFree();
          ASSERT_EQ(block == kNoBlock, free == 0);
          if (block == kNoBlock) break;
          ASSERT_TRUE(references.emplace(block, 1).second);
          break;
        }
        case 1: {
          const BlockId block = pool.TakeLeastRecent();
          ASSERT_EQ(block, cached.empty() ? kNoBlock : cached.front());
          if (block == kNoBlock) break;
          cached.pop_front();
          references[block] = 1;
          break;
        }
        case 2: {
          if (references.empty() && cached.empty()) break;
          const bool from_cache = !cached.empty() && random() % 2 == 0;
          if (!from_cache && references.empty()) break;
          const BlockId block = from_cache
                                    ? cached[random() % cached.size()]
                                    : std::next(references.begin(), random() % references.size())->first;
          pool.AddReference(block);
          std::erase(cached, block);
          ++references[block];
          break;
        }
        default: {
          if (references.empty()) break;
          const auto victim = std::next(references.begin(), random() % references.size());
          const bool keep = random() % 2 == 0;
          pool.Release(victim->first, keep ? Retention::kCached : Retention::kNone);
          if (--victim->second > 0) break;
          if (keep) cached.push_back(victim->first);
          references.erase(victim);
        }
      }
      ASSERT_EQ(pool.used(), static_cast<int>(references.size()));
      ASSERT_EQ(pool.cached(), static_cast<int>(cached.size()));
      ASSERT_EQ(pool.used() + pool.cached() + pool.free(), total);
      for (const auto& [block, count] : references) ASSERT_EQ(pool.References(block), count);
      ASSERT_TRUE(pool.CheckInvariants().ok());
    }
  }
}

}  // namespace
}  // namespace skipjack
