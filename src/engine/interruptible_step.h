// A step that a realtime submission may interrupt, as far as the submitter's thread must know it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace skipjack {

struct InterruptibleStep {
  std::uint64_t ticket = 0;
  std::optional<TimePoint> expected_end = {};  // none: nobody knows
  Duration worth_waiting{};                    // EngineOptions::interrupt_threshold

  // Not where the step is about to end, as predicted. One that is overdue by more than that ends nobody knows
  // when.
  bool IsWorthInterrupting(TimePoint now) const {
    if (!expected_end) return true;
    const Duration off = now < *expected_end ? *expected_end - now : now - *expected_end;
    return off >= worth_waiting;
  }
};

}  // namespace skipjack
