#include "base/timer_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/support/event.h"

namespace skipjack {
namespace {

using std::chrono::seconds;

// Returns when everything that was due before has run.
void Settle(TimerThread& timer) {
  testing::Event ran;
  timer.Post([&] { ran.Set(); });
  ran.Wait();
}

TEST(TimerThreadTest, PostsRunInOrderBeforeTimers) {
  std::vector<int> order;
  ManualClock clock;
  TimerThread timer(clock);
  testing::Event gate;
  timer.Post([&] { gate.Wait(); });
  timer.At(clock.Now(), [&] { order.push_back(3); });
  timer.Post([&] { order.push_back(1); });
  timer.Post([&] { order.push_back(2); });
  gate.Set();
  testing::Event last;
  timer.At(clock.Now(), [&] { last.Set(); });
  last.Wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimerThreadTest, RunsWhenTheClockReachesTheTime) {
  ManualClock clock;
  TimerThread timer(clock);
  bool early = false;
  testing::Event ran;
  timer.At(clock.Now() + seconds(20), [&] { early = true; });
  timer.At(clock.Now() + seconds(10), [&] { ran.Set(); });
  Settle(timer);
  clock.Advance(seconds(10));
  ran.Wait();
  Settle(timer);
  EXPECT_FALSE(early);
}

TEST(TimerThreadTest, AnEarlierTimerOvertakes) {
  ManualClock clock;
  TimerThread timer(clock);
  std::vector<int> order;
  testing::Event last;
  timer.At(clock.Now() + seconds(3), [&] {
    order.push_back(3);
    last.Set();
  });
  Settle(timer);  // the thread waits for the third second now
  timer.At(clock.Now() + seconds(1), [&] { order.push_back(1); });
  timer.At(clock.Now() + seconds(2), [&] { order.push_back(2); });
  clock.Advance(seconds(3));
  last.Wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimerThreadTest, ACancelledTimerDoesNotRunAndLetsGo) {
  ManualClock clock;
  TimerThread timer(clock);
  auto owned = std::make_shared<int>(0);
  const TimePoint when = clock.Now() + seconds(1);
  const TimerThread::TimerId id = timer.At(when, [owned] { ++*owned; });
  timer.Cancel(when, id);
  EXPECT_EQ(owned.use_count(), 1);
  clock.Advance(seconds(2));
  Settle(timer);
  EXPECT_EQ(*owned, 0);
  timer.Cancel(when, id);  // nothing left to cancel
  timer.Cancel(when, 12345);
}

TEST(TimerThreadTest, EndsWithTimersLeftButRunsWhatWasPosted) {
  ManualClock clock;
  int posted = 0;
  bool timed = false;
  {
    TimerThread timer(clock);
    timer.At(clock.Now() + seconds(1), [&] { timed = true; });
    for (int i = 0; i < 10; ++i) timer.Post([&] { ++posted; });
  }
  EXPECT_EQ(posted, 10);
  EXPECT_FALSE(timed);
}

TEST(TimerThreadTest, RunsOnTheSystemsClock) {
  const SystemClock clock;
  TimerThread timer(clock);
  TimePoint ran_at{};
  testing::Event ran;
  const TimePoint when = clock.Now() + std::chrono::milliseconds(5);
  timer.At(when, [&] {
    ran_at = clock.Now();
    ran.Set();
  });
  ran.Wait();
  EXPECT_GE(ran_at, when);
}

}  // namespace
}  // namespace skipjack
