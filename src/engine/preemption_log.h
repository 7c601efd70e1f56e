// Preemptions by the thousand as a line now and then that says what to do about them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace skipjack {

class PreemptionLog {
 public:
  void Add(std::int32_t tokens_lost);
  // What was added since the last line, unless that was too short a time ago.
  std::optional<std::string> TakeLine(TimePoint now);

 private:
  std::int64_t sequences_ = 0;
  std::int64_t tokens_ = 0;
  std::optional<TimePoint> last_line_;
};

}  // namespace skipjack
