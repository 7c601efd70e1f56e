// Time as a dependency: production code asks a Clock, so that tests and the simulator can turn it by hand.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

namespace skipjack {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double ToSeconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic. Callable from any thread.
  virtual TimePoint Now() const = 0;
  // Waits on `wakeup` until it is notified or this clock has reached `deadline`. `lock` is held by the caller
  // and given up while waiting, as with any condition variable; it may wake for no reason. A clock that does
  // not run with real time must override this.
  virtual void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock,
                         TimePoint deadline) const;
};

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

// Stands still until Advance() moves it and wakes those who wait for the time it reached. Callable from any
// thread.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override;
  void WaitUntil(std::condition_variable_any& wakeup, std::unique_lock<std::mutex>& lock,
                 TimePoint deadline) const override;
  void Advance(Duration by);

 private:
  // Taken after a waiter's own mutex, never before it.
  mutable std::mutex mutex_;
  TimePoint now_{};
  mutable std::multiset<std::condition_variable_any*> waiters_;
};

}  // namespace skipjack
