#include "base/timer_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <vector>

namespace skipjack {
namespace {

using std::chrono::seconds;

// Returns when everything that was due before has run.
void Settle(TimerThread& timer) {
  std::promise<void> ran;
  timer.Post([&] { ran.set_value(); });
  ran.get_future().wait();
}

TEST(TimerThreadTest, PostsRunInOrderBeforeTimers) {
  std::vector<int> order;
  ManualClock clock;
  TimerThread timer(clock);
  std::promise<void> gate;
  timer.Post([&] { gate.get_future().wait(); });
  timer.At(clock.Now(), [&] { order.push_back(3); });
  timer.Post([&] { order.push_back(1); });
  timer.Post([&] { order.push_back(2); });
  gate.set_value();
  std::promise<void> last;
  timer.At(clock.Now(), [&] { last.set_value(); });
  last.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(TimerThreadTest, RunsWhenTheClockReachesTheTime) {
  ManualClock clock;
  TimerThread timer(clock);
  bool early = false;
  std::promise<void> ran;
  timer.At(clock.Now() + seconds(20), [&] { early = true; });
  timer.At(clock.Now() + seconds(10), [&] { ran.set_value(); });
  Settle(timer);
  clock.Advance(seconds(10));
  ran.get_future().wait();
  Settle(timer);
  EXPECT_FALSE(early);
}

TEST(TimerThreadTest, AnEarlierTimerOvertakes) {
  ManualClock clock;
  TimerThread timer(clock);
  std::vector<int> order;
  std::promise<void> last;
  timer.At(clock.Now() + seconds(3), [&] {
    order.push_back(3);
    last.set_value();
  });
  Settle(timer);  // the thread waits for the third second now
  timer.At(clock.Now() + seconds(1), [&] { order.push_back(1); });
  timer.At(clock.Now() + seconds(2), [&] { order.push_back(2); });
  clock.Advance(seconds(3));
  last.get_future().wait();
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
  std::promise<TimePoint> ran;
  const TimePoint when = clock.Now() + std::chrono::milliseconds(5);
  timer.At(when, [&] { ran.set_value(clock.Now()); });
  EXPECT_GE(ran.get_future().get(), when);
}

}  // namespace
}  // namespace skipjack
