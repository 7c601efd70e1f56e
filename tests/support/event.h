// Something that happens once and that others wait for. Unlike a promise, it may be destroyed by whoever
// waited.
#pragma once

#include <condition_variable>
#include <mutex>

namespace skipjack::testing {

class Event {
 public:
  void Set() {
    std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

}  // namespace skipjack::testing
