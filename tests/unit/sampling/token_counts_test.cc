#include "sampling/token_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace skipjack {
namespace {

std::map<TokenId, std::int32_t> Contents(const TokenCounts& counts) {
  std::map<TokenId, std::int32_t> contents;
  for (const TokenCounts::Entry& entry : counts.slots()) {
    if (entry.token != TokenCounts::kNone) contents[entry.token] = entry.generated;
  }
  return contents;
}

TEST(TokenCountsTest, TellsPromptFromOutput) {
  TokenCounts counts;
  EXPECT_TRUE(counts.slots().empty());
  counts.AddPrompt(7);
  counts.AddPrompt(7);
  counts.AddGenerated(9);
  counts.AddGenerated(7);
  counts.AddGenerated(7);
  EXPECT_EQ(counts.distinct(), 2u);
  EXPECT_EQ(Contents(counts), (std::map<TokenId, std::int32_t>{{7, 2}, {9, 1}}));
}

TEST(TokenCountsTest, AgreesWithAMapWhileItGrows) {
  TokenCounts counts;
  std::map<TokenId, std::int32_t> reference;
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto token = static_cast<TokenId>(random() % 5000);
    if (random() % 3 == 0) {
      counts.AddPrompt(token);
      reference[token] += 0;
    } else {
      counts.AddGenerated(token);
      ++reference[token];
    }
  }
  EXPECT_EQ(counts.distinct(), reference.size());
  EXPECT_EQ(Contents(counts), reference);
}

}  // namespace
}  // namespace skipjack
