#include "engine/preemption_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace skipjack {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(PreemptionLogTest, SaysNowAndThenHowManyAndWhatToDo) {
  TimePoint now{};
  PreemptionLog log;
  EXPECT_FALSE(log.TakeLine(now));
  log.Add(40);
  const auto first = log.TakeLine(now);
  ASSERT_TRUE(first);
  EXPECT_THAT(*first, HasSubstr("1 times a sequence lost its KV and 40 tokens"));
  EXPECT_THAT(*first, HasSubstr("kv.device_memory"));
  EXPECT_THAT(*first, HasSubstr("scheduler.max_sequences"));
  for (int i = 0; i < 1000; ++i) {
    log.Add(3);
    now += std::chrono::milliseconds(9);
    EXPECT_FALSE(log.TakeLine(now)) << i;
  }
  now += seconds(1);
  const auto second = log.TakeLine(now);
  ASSERT_TRUE(second);
  EXPECT_THAT(*second, HasSubstr("1000 times a sequence lost its KV in the last 10 s and 3000 tokens"));
  now += seconds(100);
  EXPECT_FALSE(log.TakeLine(now));  // nothing happened
}

}  // namespace
}  // namespace skipjack
