#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <vector>

namespace skipjack {
namespace {

TEST(ThreadPoolTest, RunsInOrderOnOneThread) {
  std::vector<int> order;
  {
    ThreadPool pool("test", 1, 100);
    for (int i = 0; i < 100; ++i) {
      while (!pool.TryPost([&order, i] { order.push_back(i); })) {
      }
    }
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPoolTest, RefusesBeyondItsBoundAndRecovers) {
  std::promise<void> started;
  std::promise<void> gate;
  std::atomic<int> ran{0};
  ThreadPool pool("test", 1, 2);
  ASSERT_TRUE(pool.TryPost([&] {
    started.set_value();
    gate.get_future().wait();
  }));
  started.get_future().wait();  // taken: it does not count any more
  EXPECT_TRUE(pool.TryPost([&] { ++ran; }));
  EXPECT_TRUE(pool.TryPost([&] { ++ran; }));
  EXPECT_FALSE(pool.TryPost([&] { ++ran; }));
  gate.set_value();
  std::promise<void> last;
  while (!pool.TryPost([&] { last.set_value(); })) {
  }
  last.get_future().wait();
  EXPECT_EQ(ran, 2);
}

TEST(ThreadPoolTest, ThreadsRunAtTheSameTime) {
  // Each waits for the other: only two threads get through.
  ThreadPool pool("test", 2, 2);
  std::promise<void> first, second, done_first, done_second;
  ASSERT_TRUE(pool.TryPost([&] {
    first.set_value();
    second.get_future().wait();
    done_first.set_value();
  }));
  ASSERT_TRUE(pool.TryPost([&] {
    second.set_value();
    first.get_future().wait();
    done_second.set_value();
  }));
  done_first.get_future().wait();
  done_second.get_future().wait();
}

TEST(ThreadPoolTest, DropsWhatWorkOwnsOnceItRan) {
  ThreadPool pool("test", 1, 4);
  auto owned = std::make_shared<int>(1);
  ASSERT_TRUE(pool.TryPost([owned] {}));
  std::promise<void> later;
  ASSERT_TRUE(pool.TryPost([&] { later.set_value(); }));
  later.get_future().wait();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(ThreadPoolTest, TakesAtLeastOneThread) {
  std::promise<void> ran;
  ThreadPool pool("test", 0, 1);
  ASSERT_TRUE(pool.TryPost([&] { ran.set_value(); }));
  ran.get_future().wait();
}

}  // namespace
}  // namespace skipjack
