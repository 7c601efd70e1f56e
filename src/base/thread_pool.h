// A fixed number of threads behind a bounded queue.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace skipjack {

class ThreadPool {
 public:
  // At least one thread, all of this name. `queue_capacity` counts work that no thread has taken yet.
  ThreadPool(const std::string& name, int threads, std::size_t queue_capacity);
  // Runs what is queued, then joins. Must not run on one of the pool's own threads.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Work runs in the order it was posted (with several threads: starts in that order) and must not throw.
  // False, with `work` dropped, when the queue is full. From any thread.
  bool TryPost(std::function<void()> work);

 private:
  void Run();

  const std::size_t capacity_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace skipjack
