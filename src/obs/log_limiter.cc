#include "obs/log_limiter.h"

#include <algorithm>
#include <utility>

namespace skipjack {

LogLimiter::Decision LogLimiter::Take() {
  std::lock_guard lock(mutex_);
  const TimePoint now = clock_.Now();
  Decision decision;
  if (!period_start_ || now - *period_start_ >= period_) {
    decision.left_out = std::max<std::int64_t>(0, std::exchange(taken_, 0) - lines_);
    period_start_ = now;
  }
  decision.write = ++taken_ <= lines_;
  return decision;
}

}  // namespace skipjack
