#include "serve/byte_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace skipjack {
namespace {

TEST(ByteBudget, GivesWhatItHasAndNotMore) {
  const auto shared = std::make_shared<ByteBudget>(10);
  const ByteBudget& budget = *shared;
  ByteShare first(shared);
  EXPECT_TRUE(first.Grow(4));
  EXPECT_TRUE(first.Grow(4));
  {
    ByteShare second(shared);
    EXPECT_FALSE(second.Grow(3));
    EXPECT_TRUE(second.Grow(2));
    EXPECT_TRUE(second.Grow(0));
    EXPECT_FALSE(second.Grow(1));
    EXPECT_EQ(budget.left(), 0);
  }
  EXPECT_EQ(budget.left(), 2);
  first.Release();
  first.Release();
  EXPECT_EQ(budget.left(), budget.total());
  EXPECT_TRUE(first.Grow(10));
}

TEST(ByteBudget, ManyThreadsNeverHoldMoreThanAll) {
  constexpr std::int64_t kTotal = 100;
  const auto budget = std::make_shared<ByteBudget>(kTotal);
  std::atomic<std::int64_t> held = 0;
  std::atomic<bool> exceeded = false;
  const auto work = [&](std::int64_t bytes) {
    for (int i = 0; i < 20'000; ++i) {
      ByteShare share(budget);
      if (!share.Grow(bytes)) continue;
      if (held.fetch_add(bytes) + bytes > kTotal) exceeded = true;
      held -= bytes;
    }
  };
  std::vector<std::thread> threads;
  for (const std::int64_t bytes : {7, 30, 61, 99}) threads.emplace_back(work, bytes);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(budget->left(), kTotal);
}

}  // namespace
}  // namespace skipjack
