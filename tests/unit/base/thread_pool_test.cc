#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/support/event.h"

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
  testing::Event started;
  testing::Event gate;
  std::atomic<int> ran{0};
  ThreadPool pool("test", 1, 2);
  ASSERT_TRUE(pool.TryPost([&] {
    started.Set();
    gate.Wait();
  }));
  started.Wait();  // taken: it does not count any more
  EXPECT_TRUE(pool.TryPost([&] { ++ran; }));
  EXPECT_TRUE(pool.TryPost([&] { ++ran; }));
  EXPECT_FALSE(pool.TryPost([&] { ++ran; }));
  gate.Set();
  testing::Event last;
  while (!pool.TryPost([&] { last.Set(); })) {
  }
  last.Wait();
  EXPECT_EQ(ran, 2);
}

TEST(ThreadPoolTest, ThreadsRunAtTheSameTime) {
  // Each waits for the other: only two threads get through.
  ThreadPool pool("test", 2, 2);
  testing::Event first, second, done_first, done_second;
  ASSERT_TRUE(pool.TryPost([&] {
    first.Set();
    second.Wait();
    done_first.Set();
  }));
  ASSERT_TRUE(pool.TryPost([&] {
    second.Set();
    first.Wait();
    done_second.Set();
  }));
  done_first.Wait();
  done_second.Wait();
}

TEST(ThreadPoolTest, DropsWhatWorkOwnsOnceItRan) {
  ThreadPool pool("test", 1, 4);
  auto owned = std::make_shared<int>(1);
  ASSERT_TRUE(pool.TryPost([owned] {}));
  testing::Event later;
  ASSERT_TRUE(pool.TryPost([&] { later.Set(); }));
  later.Wait();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(ThreadPoolTest, TakesAtLeastOneThread) {
  testing::Event ran;
  ThreadPool pool("test", 0, 1);
  ASSERT_TRUE(pool.TryPost([&] { ran.Set(); }));
  ran.Wait();
}

}  // namespace
}  // namespace skipjack
