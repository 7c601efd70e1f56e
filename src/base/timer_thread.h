// One thread that runs small callbacks at a given time, or as soon as it can.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace skipjack {

class TimerThread {
 public:
  using TimerId = std::uint64_t;  // 0 names no timer

  explicit TimerThread(const Clock& clock);
  // Runs what was posted, drops timers that are not due, then joins. Must not run on the timer thread itself.
  ~TimerThread();
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  // Callbacks run one after the other on the timer's thread; they must be short and must not throw. From any
  // thread.
  void Post(std::function<void()> callback) { At(TimePoint::min(), std::move(callback)); }
  TimerId At(TimePoint when, std::function<void()> callback);
  // The callback will not start any more; it may be running just now. Unknown and past ids are ignored.
  void Cancel(TimePoint when, TimerId id);

 private:
  void Run();

  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::map<std::pair<TimePoint, TimerId>, std::function<void()>>
      callbacks_;  // posted ones first, in their order
  TimerId last_id_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skipjack
