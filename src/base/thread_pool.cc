#include "base/thread_pool.h"

#include <algorithm>
#include <utility>

#include "base/thread_name.h"

namespace skipjack {

ThreadPool::ThreadPool(const std::string& name, int threads, std::size_t queue_capacity)
    : capacity_(queue_capacity) {
  const int count = std::max(threads, 1);
  threads_.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back([this, name] {
      SetThreadName(name);
      Run();
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadPool::TryPost(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= capacity_) return false;
    queue_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void ThreadPool::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it owns goes outside the lock
    lock.lock();
  }
}

}  // namespace skipjack
