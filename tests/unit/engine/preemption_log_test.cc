#include "engine/preemption_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace skipjack {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PreemptionLogTest, SaysNowAndThenHowManyAndWhatToDo) {
  TimePoint now{};
  PreemptionLog log;
  EXPECT_FALSE(log.TakeLine(now));
  log.Add({.sequence = 1, .tokens_lost = 40, .cause = PreemptionCause::kGrowth});
  const auto first = log.TakeLine(now);
  ASSERT_TRUE(first);
  EXPECT_THAT(*first,
              HasSubstr("1 times a sequence lost its KV and 40 tokens of it: 1 because KV blocks ran out"));
  EXPECT_THAT(*first, HasSubstr("kv.device_memory"));
  EXPECT_THAT(*first, HasSubstr("scheduler.max_sequences"));
  for (int i = 0; i < 1000; ++i) {
    log.Add({.tokens_lost = 3, .cause = i % 4 == 0 ? PreemptionCause::kPriority : PreemptionCause::kPolicy});
    now += std::chrono::milliseconds(9);
    EXPECT_FALSE(log.TakeLine(now)) << i;
  }
  now += seconds(1);
  const auto second = log.TakeLine(now);
  ASSERT_TRUE(second);
  EXPECT_THAT(*second,
              HasSubstr("1000 times a sequence lost its KV in the last 10 s and 3000 tokens of it: 250 for "
                        "a higher priority class, 750 for others that go first by the policy"));
  EXPECT_THAT(*second, Not(HasSubstr("kv.device_memory"))) << "more memory would not help";
  now += seconds(100);
  EXPECT_FALSE(log.TakeLine(now));  // nothing happened
}

}  // namespace
}  // namespace skipjack
