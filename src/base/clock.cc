#include "base/clock.h"

namespace skipjack {
namespace {

// Two mutexes as one lockable, so that a wait gives both up together: whoever holds the second alone can
// notify and be sure that the waiter is either waiting or has not looked at the time yet.
class BothLocks {
 public:
  BothLocks(std::unique_lock<std::mutex>& outer, std::unique_lock<std::mutex>& inner)
      : outer_(outer), inner_(inner) {}

  void lock() {
    outer_.lock();
    inner_.lock();
  }
  void unlock() {
    inner_.unlock();
    outer_.unlock();
  }

 private:
  std::unique_lock<std::mutex>& outer_;
  std::unique_lock<std::mutex>& inner_;
};

}  // namespace

void Clock::WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock,
                      TimePoint deadline) const {
  const Duration left = deadline - Now();
  if (left > Duration::zero()) wakeup.wait_for(lock, left);
}

TimePoint ManualClock::Now() const {
  std::lock_guard guard(mutex_);
  return now_;
}

void ManualClock::WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock,
                            TimePoint deadline) const {
  std::unique_lock own(mutex_);
  if (now_ >= deadline) return;
  const auto entry = waiters_.insert(&wakeup);
  BothLocks both(lock, own);
  wakeup.wait(both);
  waiters_.erase(entry);
}

void ManualClock::Advance(Duration by) {
  std::lock_guard guard(mutex_);
  now_ += by;
  for (std::condition_variable_any* waiter : waiters_) waiter->notify_all();
}

}  // namespace skipjack
