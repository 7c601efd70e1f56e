#include "engine/step_watchdog.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/thread_name.h"

namespace skipjack {
namespace {

constexpr Duration::rep kIdle = std::numeric_limits<Duration::rep>::min();
// Keeps sums of times far from overflow.
constexpr Duration kLongestLimit = std::chrono::hours(24 * 365);

}  // namespace

StepWatchdog::StepWatchdog(const Clock& clock, Duration limit, std::function<void(Duration)> on_stall)
    : clock_(clock),
      limit_(std::min(limit, kLongestLimit).count()),
      on_stall_(std::move(on_stall)),
      since_(kIdle),
      thread_([this] { Watch(); }) {}

StepWatchdog::~StepWatchdog() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StepWatchdog::Working() {
  if (since_.load(std::memory_order_relaxed) == kIdle) Progressed();
}

void StepWatchdog::Progressed() {
  since_.store(clock_.Now().time_since_epoch().count(), std::memory_order_relaxed);
}

void StepWatchdog::Idle() {
  since_.store(kIdle, std::memory_order_relaxed);
}

void StepWatchdog::Raise(Duration limit) {
  const Duration::rep longer = std::min(limit, kLongestLimit).count();
  if (longer > limit_.load(std::memory_order_relaxed)) limit_.store(longer, std::memory_order_relaxed);
}

std::optional<TimePoint> StepWatchdog::Since() const {
  const Duration::rep since = since_.load(std::memory_order_relaxed);
  if (since == kIdle) return std::nullopt;
  return TimePoint(Duration(since));
}

Status StepWatchdog::Health() const {
  const std::optional<TimePoint> since = Since();
  if (!since) return Status::Ok();
  const Duration stalled = clock_.Now() - *since;
  if (stalled <= limit()) return Status::Ok();
  return Status::Unavailable("work waits and no step has ended for " + std::to_string(ToSeconds(stalled)) +
                             " s, the limit is " + std::to_string(ToSeconds(limit())) + " s");
}

// Wakes when the limit could be reached at the earliest, never per step.
void StepWatchdog::Watch() {
  SetThreadName("step-watchdog");
  std::optional<TimePoint> reported;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const TimePoint now = clock_.Now();
    const std::optional<TimePoint> since = Since();
    TimePoint next = now + limit();
    if (since && since != reported) {
      if (now - *since > limit()) {
        reported = since;
        lock.unlock();
        on_stall_(now - *since);
        lock.lock();
        continue;
      }
      next = *since + limit() + Duration(1);
    }
    clock_.WaitUntil(wake_, lock, next);
  }
}

}  // namespace skipjack
