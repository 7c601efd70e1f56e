#include "base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace skipjack {
namespace {

using std::chrono::seconds;

TEST(ClockTest, ConvertsToAndFromSeconds) {
  EXPECT_EQ(FromSeconds(1.5), std::chrono::milliseconds(1500));
  EXPECT_DOUBLE_EQ(ToSeconds(std::chrono::milliseconds(250)), 0.25);
}

TEST(ManualClockTest, MovesOnlyByHand) {
  ManualClock clock;
  const TimePoint start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(seconds(5));
  EXPECT_EQ(clock.Now() - start, seconds(5));
}

TEST(ManualClockTest, DoesNotWaitForAPastDeadline) {
  ManualClock clock;
  std::mutex mutex;
  std::condition_variable_any wakeup;
  std::unique_lock lock(mutex);
  clock.WaitUntil(wakeup, lock, clock.Now());
  EXPECT_TRUE(lock.owns_lock());
}

// Whoever waits for a time wakes when the clock reaches it, however the two threads interleave.
TEST(ManualClockTest, AdvanceNeverLosesAWaiter) {
  for (int round = 0; round < 200; ++round) {
    ManualClock clock;
    std::mutex mutex;
    std::condition_variable_any wakeup;
    const TimePoint deadline = clock.Now() + seconds(3);
    std::vector<std::thread> waiters;
    std::atomic<int> woken{0};
    for (int i = 0; i < 3; ++i) {
      waiters.emplace_back([&] {
        std::unique_lock lock(mutex);
        while (clock.Now() < deadline) clock.WaitUntil(wakeup, lock, deadline);
        ++woken;
      });
    }
    for (int i = 0; i < 3; ++i) clock.Advance(seconds(1));
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_EQ(woken, 3);
  }
}

TEST(ManualClockTest, ANotificationWakesBeforeTheDeadline) {
  ManualClock clock;
  std::mutex mutex;
  std::condition_variable_any wakeup;
  bool ready = false;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    while (!ready) clock.WaitUntil(wakeup, lock, clock.Now() + seconds(1));
  });
  {
    std::lock_guard guard(mutex);
    ready = true;
  }
  wakeup.notify_all();
  waiter.join();
}

TEST(SystemClockTest, ReturnsWhenTheDeadlinePasses) {
  SystemClock clock;
  std::mutex mutex;
  std::condition_variable_any wakeup;
  std::unique_lock lock(mutex);
  const TimePoint deadline = clock.Now() + std::chrono::milliseconds(2);
  while (clock.Now() < deadline) clock.WaitUntil(wakeup, lock, deadline);
  EXPECT_GE(clock.Now(), deadline);
  EXPECT_TRUE(lock.owns_lock());
}

}  // namespace
}  // namespace skipjack
