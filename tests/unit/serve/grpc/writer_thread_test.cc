#include "serve/grpc/writer_thread.h"

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/event.h"

namespace skipjack {
namespace {

using testing::Event;

// Notes who called, and when.
class Recorder final : public Writable {
 public:
  struct Log {
    std::mutex mutex;
    std::vector<int> order;
    std::vector<std::thread::id> threads;
  };

  Recorder(Log& log, int id, Event* wait_for = nullptr, Event* begun = nullptr)
      : log_(log), id_(id), wait_for_(wait_for), begun_(begun) {}

  void WriteNext() override {
    if (begun_) begun_->Set();
    if (wait_for_) wait_for_->Wait();
    std::lock_guard lock(log_.mutex);
    log_.order.push_back(id_);
    log_.threads.push_back(std::this_thread::get_id());
  }

 private:
  Log& log_;
  const int id_;
  Event* const wait_for_;
  Event* const begun_;
};

TEST(WriterThreadTest, PostingDoesNotWaitForAWriteUnderWay) {
  Recorder::Log log;
  Event gate, begun;
  {
    WriterThread writer;
    writer.Post(std::make_shared<Recorder>(log, 0, &gate, &begun));
    begun.Wait();
    // The thread stands inside of a write; this returns all the same.
    for (int i = 1; i <= 100; ++i) writer.Post(std::make_shared<Recorder>(log, i));
    EXPECT_TRUE(log.order.empty());
    gate.Set();
  }
  ASSERT_EQ(log.order.size(), 101u);  // also what was posted last
  for (int i = 0; i <= 100; ++i) {
    EXPECT_EQ(log.order[static_cast<std::size_t>(i)], i);
    EXPECT_NE(log.threads[static_cast<std::size_t>(i)], std::this_thread::get_id());
  }
}

TEST(WriterThreadTest, ManyThreadsPost) {
  constexpr int kThreads = 8, kPosts = 500;
  Recorder::Log log;
  {
    WriterThread writer;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kPosts; ++i) writer.Post(std::make_shared<Recorder>(log, t));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(log.order.size(), static_cast<std::size_t>(kThreads * kPosts));
}

TEST(WriterThreadTest, NothingIsKeptAfterItsWrite) {
  Recorder::Log log;
  WriterThread writer;
  std::weak_ptr<Writable> weak;
  {
    const auto recorder = std::make_shared<Recorder>(log, 0);
    weak = recorder;
    writer.Post(recorder);
  }
  Event begun;
  writer.Post(std::make_shared<Recorder>(log, 1, nullptr, &begun));
  begun.Wait();  // what was before it is done
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace skipjack
