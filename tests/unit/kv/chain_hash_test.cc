#include "kv/chain_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

std::pair<std::uint64_t, std::uint64_t> AsPair(const ChainHash& hash) {
  return {hash.low, hash.high};
}

TEST(ChainHash, DependsOnSaltOrderAndLength) {
  const std::vector<TokenId> ab = {1, 2};
  const std::vector<TokenId> ba = {2, 1};
  const std::vector<TokenId> a = {1};
  const std::vector<TokenId> b = {2};
  const ChainHash seed = ChainSeed("");
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const ChainHash& hash :
       {ChainExtend(seed, ab), ChainExtend(seed, ba), ChainExtend(ChainSeed("x"), ab),
        ChainExtend(ChainExtend(seed, a), b), ChainExtend(seed, a), seed, ChainSeed("x"),
        ChainSeed(std::string_view("\0", 1)), ChainSeed(std::string_view("\0\0", 2))}) {
    EXPECT_TRUE(seen.insert(AsPair(hash)).second);
  }
}

// The value travels between runs and machines (replayed plans, routing): it may not change silently. Expected
// values were computed with Python's integers.
TEST(ChainHash, IsStable) {
  const std::vector<TokenId> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  const ChainHash hash = ChainExtend(ChainSeed("tenant"), tokens);
  EXPECT_EQ(hash.low, 0x79b722b620003dc6ULL);
  EXPECT_EQ(hash.high, 0xd69d3d5e696cb53fULL);
}

// Similar blocks are what prompts are made of: no two of 200,000 share even one lane's 64 bits.
TEST(ChainHash, SimilarBlocksDoNotCollide) {
  std::vector<std::uint64_t> low;
  std::vector<std::uint64_t> high;
  std::vector<TokenId> tokens(16, 0);
  for (TokenId a = 0; a < 400; ++a) {
    for (TokenId b = 0; b < 500; ++b) {
      tokens[static_cast<std::size_t>(a % 16)] = a;
      tokens[static_cast<std::size_t>((a + 7) % 16)] = b;
      const ChainHash hash = ChainExtend(ChainSeed(""), tokens);
      low.push_back(hash.low);
      high.push_back(hash.high);
    }
    tokens[static_cast<std::size_t>(a % 16)] = 500 + a;
  }
  std::ranges::sort(low);
  std::ranges::sort(high);
  EXPECT_EQ(std::ranges::adjacent_find(low), low.end());
  EXPECT_EQ(std::ranges::adjacent_find(high), high.end());
}

TEST(ChainHash, OneBitChangesHalfOfTheHash) {
  std::mt19937_64 random(3);
  std::vector<TokenId> tokens(16);
  double changed = 0;
  constexpr int kRounds = 4000;
  for (int i = 0; i < kRounds; ++i) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random() & 0x7fffffff);
    const ChainHash before = ChainExtend(ChainSeed(""), tokens);
    tokens[random() % 16] ^= static_cast<TokenId>(1u << (random() % 31));
    const ChainHash after = ChainExtend(ChainSeed(""), tokens);
    const int bits = std::popcount(before.low ^ after.low) + std::popcount(before.high ^ after.high);
    EXPECT_GT(bits, 24);
    EXPECT_LT(bits, 104);
    changed += bits;
  }
  EXPECT_NEAR(changed / kRounds, 64.0, 1.0);
}

}  // namespace
}  // namespace skipjack
