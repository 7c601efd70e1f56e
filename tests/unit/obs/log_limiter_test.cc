#include "obs/log_limiter.h"

#include <gtest/gtest.h>

#include <chrono>

namespace skipjack {
namespace {

using std::chrono::seconds;

TEST(LogLimiterTest, WritesAFewInEachPeriodAndCountsTheRest) {
  ManualClock clock;
  LogLimiter limiter(clock, seconds(10), 3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.Take().write);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(limiter.Take().write);
  clock.Advance(seconds(9));
  EXPECT_FALSE(limiter.Take().write);
  clock.Advance(seconds(1));
  const LogLimiter::Decision first = limiter.Take();
  EXPECT_TRUE(first.write);
  EXPECT_EQ(first.left_out, 1001);
  EXPECT_EQ(limiter.Take().left_out, 0);
}

TEST(LogLimiterTest, AQuietPeriodLeavesNothingOut) {
  ManualClock clock;
  LogLimiter limiter(clock, seconds(10), 3);
  EXPECT_TRUE(limiter.Take().write);
  clock.Advance(seconds(100));
  const LogLimiter::Decision next = limiter.Take();
  EXPECT_TRUE(next.write);
  EXPECT_EQ(next.left_out, 0);
}

}  // namespace
}  // namespace skipjack
