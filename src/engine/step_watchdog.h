// Notices that work waits and no step ends. It watches from its own thread and never touches the loop's
// state.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/status.h"

namespace skipjack {

class StepWatchdog {
 public:
  // `on_stall` is called once per stall, on the watchdog's thread, with how long it has lasted. `limit` is
  // positive; Raise() may make it longer.
  StepWatchdog(const Clock& clock, Duration limit, std::function<void(Duration)> on_stall);
  ~StepWatchdog();
  StepWatchdog(const StepWatchdog&) = delete;
  StepWatchdog& operator=(const StepWatchdog&) = delete;

  // From the step loop. There is work: its time counts from the first of these calls after Idle().
  void Working();
  // A step ended.
  void Progressed();
  // There is no work.
  void Idle();
  // A stall is what lasts longer than this; a limit below the present one changes nothing.
  void Raise(Duration limit);

  // From any thread. Unavailable while work has waited for longer than the limit without progress.
  Status Health() const;
  Duration limit() const { return Duration(limit_.load(std::memory_order_relaxed)); }

 private:
  // Since when there is work without progress.
  std::optional<TimePoint> Since() const;
  void Watch();

  const Clock& clock_;
  std::atomic<Duration::rep> limit_;
  const std::function<void(Duration)> on_stall_;
  std::atomic<Duration::rep> since_;  // of the clock's epoch; kIdle: there is no work

  std::mutex mutex_;
  std::condition_variable_any wake_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace skipjack
