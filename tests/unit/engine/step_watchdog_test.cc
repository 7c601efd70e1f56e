#include "engine/step_watchdog.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace skipjack {
namespace {

using std::chrono::seconds;

// Remembers the stalls it is told of.
class Stalls {
 public:
  void Add(Duration stalled) {
    {
      std::lock_guard guard(mutex_);
      stalls_.push_back(stalled);
    }
    changed_.notify_all();
  }

  std::vector<Duration> WaitFor(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stalls_.size() >= count; });
    return stalls_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Duration> stalls_;
};

class StepWatchdogTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  Stalls stalls_;
  StepWatchdog watchdog_{clock_, seconds(10), [this](Duration stalled) { stalls_.Add(stalled); }};
};

TEST_F(StepWatchdogTest, NoWorkIsNoStall) {
  clock_.Advance(seconds(100));
  EXPECT_TRUE(watchdog_.Health().ok());
}

TEST_F(StepWatchdogTest, ReportsEachStallOnce) {
  watchdog_.Working();
  clock_.Advance(seconds(10));
  EXPECT_TRUE(watchdog_.Health().ok());
  clock_.Advance(seconds(1));
  EXPECT_EQ(watchdog_.Health().code(), StatusCode::kUnavailable);
  EXPECT_EQ(stalls_.WaitFor(1), (std::vector<Duration>{seconds(11)}));
  clock_.Advance(seconds(50));
  clock_.Advance(seconds(50));
  watchdog_.Progressed();
  EXPECT_TRUE(watchdog_.Health().ok());
  clock_.Advance(seconds(20));
  EXPECT_EQ(stalls_.WaitFor(2), (std::vector<Duration>{seconds(11), seconds(20)}));
}

// Time counts from the first sign of work, not from each.
TEST_F(StepWatchdogTest, RepeatedWorkDoesNotCountAsProgress) {
  watchdog_.Working();
  clock_.Advance(seconds(6));
  watchdog_.Working();
  clock_.Advance(seconds(6));
  EXPECT_FALSE(watchdog_.Health().ok());
  EXPECT_EQ(stalls_.WaitFor(1), (std::vector<Duration>{seconds(12)}));
}

TEST_F(StepWatchdogTest, IdleEndsAStall) {
  watchdog_.Working();
  clock_.Advance(seconds(11));
  stalls_.WaitFor(1);
  watchdog_.Idle();
  EXPECT_TRUE(watchdog_.Health().ok());
  clock_.Advance(seconds(100));
  watchdog_.Working();
  EXPECT_TRUE(watchdog_.Health().ok());
  clock_.Advance(seconds(11));
  EXPECT_EQ(stalls_.WaitFor(2).back(), seconds(11));
}

TEST_F(StepWatchdogTest, ALongerLimitCountsFromNowOnAndAShorterOneNever) {
  watchdog_.Raise(seconds(5));
  EXPECT_EQ(watchdog_.limit(), seconds(10));
  watchdog_.Working();
  watchdog_.Raise(seconds(100));
  clock_.Advance(seconds(100));
  EXPECT_TRUE(watchdog_.Health().ok());
  clock_.Advance(seconds(1));
  EXPECT_FALSE(watchdog_.Health().ok());
  EXPECT_EQ(stalls_.WaitFor(1), (std::vector<Duration>{seconds(101)}));
}

TEST(StepWatchdogLimitTest, HugeLimitsDoNotOverflow) {
  ManualClock clock;
  StepWatchdog watchdog(clock, Duration::max(), [](Duration) { ADD_FAILURE(); });
  watchdog.Working();
  clock.Advance(std::chrono::hours(24));
  EXPECT_TRUE(watchdog.Health().ok());
}

}  // namespace
}  // namespace skipjack
