#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

using Tokens = std::vector<TokenId>;

class PrefixIndexTest : public testing::Test {
 protected:
  static constexpr std::int32_t kBlockTokens = 2;
  PrefixIndex index_{8, kBlockTokens};
  const ChainHash hash_{42, 43};  // one hash for everything: all entries collide
};

TEST_F(PrefixIndexTest, FindsOnlyTheSameTokensAfterTheSamePredecessor) {
  const PrefixIndex::Link root = index_.OpenRoot("a");
  const PrefixIndex::Link other_root = index_.OpenRoot("b");
  index_.Insert(3, hash_, root, Tokens{1, 2});
  EXPECT_EQ(index_.Find(hash_, root, Tokens{1, 2}), 3);
  EXPECT_EQ(index_.Find(hash_, root, Tokens{1, 3}), kNoBlock) << "a hash collision is not a hit";
  EXPECT_EQ(index_.Find(hash_, other_root, Tokens{1, 2}), kNoBlock) << "another salt is another tree";
  EXPECT_EQ(index_.Find({42, 44}, root, Tokens{1, 2}), kNoBlock);

  index_.Insert(5, hash_, index_.LinkOf(3), Tokens{1, 2});
  EXPECT_EQ(index_.Find(hash_, index_.LinkOf(3), Tokens{1, 2}), 5);
  EXPECT_EQ(index_.Find(hash_, root, Tokens{1, 2}), 3);
  EXPECT_TRUE(index_.CheckInvariants().ok());
}

TEST_F(PrefixIndexTest, ReusedBlockIsNotMistakenForTheOldPredecessor) {
  const PrefixIndex::Link root = index_.OpenRoot("");
  index_.Insert(0, hash_, root, Tokens{1, 1});
  index_.Insert(1, hash_, index_.LinkOf(0), Tokens{2, 2});
  index_.Erase(0);
  index_.Insert(0, hash_, root, Tokens{9, 9});  // block 0 now holds something else
  EXPECT_EQ(index_.Find(hash_, index_.LinkOf(0), Tokens{2, 2}), kNoBlock);
  EXPECT_TRUE(index_.CheckInvariants().ok());
}

TEST_F(PrefixIndexTest, RootLivesAsLongAsAnyEntryUnderIt) {
  const PrefixIndex::Link root = index_.OpenRoot("tenant");
  EXPECT_EQ(index_.OpenRoot("tenant"), root);
  index_.Insert(0, hash_, root, Tokens{1, 2});
  index_.CloseRoot(root);
  index_.CloseRoot(root);
  EXPECT_EQ(index_.OpenRoot("tenant"), root) << "the cache outlives the tenant's last sequence";
  index_.CloseRoot(root);
  index_.Erase(0);
  EXPECT_EQ(index_.roots(), 0);
  EXPECT_NE(index_.OpenRoot("tenant"), root);
}

TEST_F(PrefixIndexTest, ErasingWhatIsNotThereDoesNothing) {
  index_.Erase(4);
  EXPECT_EQ(index_.size(), 0);
  EXPECT_FALSE(index_.Contains(4));
}

// Few distinct hashes, so that probe chains are long and erasing must keep them whole.
TEST(PrefixIndex, RandomOperationsMatchAMap) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    const int blocks = 1 + static_cast<int>(random() % 40);
    PrefixIndex index(blocks, 1);
    const PrefixIndex::Link root = index.OpenRoot("");
    using Key = std::tuple<std::uint64_t, PrefixIndex::Link, TokenId>;
    std::map<Key, BlockId> model;
    std::map<BlockId, Key> by_block;
    for (int i = 0; i < 3000; ++i) {
      const BlockId block = static_cast<BlockId>(random() % static_cast<unsigned>(blocks));
      const Key key{random() % 4, random() % 2 == 0 ? root : root + 1000,
                    static_cast<TokenId>(random() % 12)};
      const auto& [low, parent, token] = key;
      const ChainHash hash{low * 7, 0};
      const auto expected = model.find(key);
      ASSERT_EQ(index.Find(hash, parent, Tokens{token}),
                expected == model.end() ? kNoBlock : expected->second);
      if (by_block.contains(block)) {
        index.Erase(block);
        model.erase(by_block[block]);
        by_block.erase(block);
      } else if (expected == model.end()) {
        index.Insert(block, hash, parent, Tokens{token});
        model[key] = block;
        by_block[block] = key;
      }
      ASSERT_EQ(index.size(), static_cast<int>(model.size()));
      ASSERT_TRUE(index.CheckInvariants().ok());
    }
  }
}

}  // namespace
}  // namespace skipjack
