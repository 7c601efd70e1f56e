#include "base/timer_thread.h"

#include "base/thread_name.h"

namespace skipjack {

TimerThread::TimerThread(const Clock& clock) : clock_(clock), thread_([this] { Run(); }) {}

TimerThread::~TimerThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

TimerThread::TimerId TimerThread::At(TimePoint when, std::function<void()> callback) {
  bool first = false;
  TimerId id = 0;
  {
    std::lock_guard lock(mutex_);
    id = ++last_id_;
    const auto entry = callbacks_.emplace(std::pair(when, id), std::move(callback)).first;
    first = entry == callbacks_.begin();
  }
  if (first) wake_.notify_one();
  return id;
}

void TimerThread::Cancel(TimePoint when, TimerId id) {
  std::function<void()> dropped;  // what it owns goes outside the lock
  std::lock_guard lock(mutex_);
  const auto entry = callbacks_.find(std::pair(when, id));
  if (entry == callbacks_.end()) return;
  dropped = std::move(entry->second);
  callbacks_.erase(entry);
}

void TimerThread::Run() {
  SetThreadName("timer");
  std::unique_lock lock(mutex_);
  for (;;) {
    if (callbacks_.empty()) {
      if (stopping_) return;
      wake_.wait(lock);
      continue;
    }
    const auto next = callbacks_.begin();
    const TimePoint when = next->first.first;
    if (when > clock_.Now()) {
      if (stopping_) return;
      clock_.WaitUntil(wake_, lock, when);
      continue;
    }
    std::function<void()> callback = std::move(next->second);
    callbacks_.erase(next);
    lock.unlock();
    callback();
    callback = nullptr;
    lock.lock();
  }
}

}  // namespace skipjack
