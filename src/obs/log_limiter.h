// Keeps lines that could come by the thousand to a few now and then, and counts the others.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "base/clock.h"

namespace skipjack {

// Thread-safe.
class LogLimiter {
 public:
  // `lines` in each `period`.
  LogLimiter(const Clock& clock, Duration period, std::int64_t lines)
      : clock_(clock), period_(period), lines_(lines) {}

  struct Decision {
    bool write = false;
    std::int64_t left_out = 0;  // with the first line of a period: how many were left out before it
  };
  Decision Take();

 private:
  const Clock& clock_;
  const Duration period_;
  const std::int64_t lines_;
  std::mutex mutex_;
  std::optional<TimePoint> period_start_;
  std::int64_t taken_ = 0;  // in this period, those left out among them
};

}  // namespace skipjack
