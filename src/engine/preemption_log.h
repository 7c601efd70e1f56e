// Preemptions by the thousand as a line now and then that says why, and what to do about them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "sched/step_plan.h"

namespace skipjack {

class PreemptionLog {
 public:
  void Add(const Preemption& preemption);
  // What was added since the last line, unless that was too short a time ago.
  std::optional<std::string> TakeLine(TimePoint now);

 private:
  std::array<std::int64_t, kPreemptionCauses> sequences_{};
  std::int64_t tokens_ = 0;
  std::optional<TimePoint> last_line_;
};

}  // namespace skipjack
