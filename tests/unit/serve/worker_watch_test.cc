#include "serve/worker_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace skipjack {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(WorkerWatchTest, TheOldestPieceOfWorkDecides) {
  ManualClock clock;
  WorkerWatch watch(clock, seconds(30));
  EXPECT_TRUE(watch.Health().ok());
  const WorkerWatch::Ticket first = watch.Posted();
  clock.Advance(seconds(20));
  const WorkerWatch::Ticket second = watch.Posted();
  clock.Advance(seconds(10));
  EXPECT_TRUE(watch.Health().ok());
  clock.Advance(seconds(1));
  EXPECT_EQ(watch.Health().code(), StatusCode::kUnavailable);
  EXPECT_THAT(watch.Health().message(),
              HasSubstr("the oldest of 2 pieces of work has waited or run for 31.0 s"));
  watch.Done(first);
  EXPECT_TRUE(watch.Health().ok());  // the second is 11 s old
  clock.Advance(seconds(20));
  EXPECT_FALSE(watch.Health().ok());
  watch.Done(second);
  clock.Advance(seconds(1000));
  EXPECT_TRUE(watch.Health().ok());
}

}  // namespace
}  // namespace skipjack
