// Time as a dependency: production code asks a Clock, so that tests and the simulator can turn it by hand.
#pragma once

#include <atomic>
#include <chrono>

namespace skipjack {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double ToSeconds(Duration d) { return std::chrono::duration<double>(d).count(); }

inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic. Callable from any thread.
  virtual TimePoint Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

// Stands still until Advance() moves it. Callable from any thread.
class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_.load())); }
  void Advance(Duration by) { now_.fetch_add(by.count()); }

 private:
  std::atomic<Duration::rep> now_{0};
};

}  // namespace skipjack
