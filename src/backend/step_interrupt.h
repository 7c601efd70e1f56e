// Asks a step that is computing to stop.
//
// Steps carry tickets that grow, from 1 on. Request(t) is meant for the step with ticket t: when that has
// ended, or has not begun, nothing else is hit by it. A request is never taken back.
#pragma once

#include <cstdint>

namespace skipjack {

class StepInterrupt {
 public:
  // Any thread. Of several requests the largest ticket counts.
  void Request(std::uint64_t ticket) {
    std::uint64_t asked = __atomic_load_n(&asked_, __ATOMIC_RELAXED);
    while (asked < ticket && !__atomic_compare_exchange_n(&asked_, &asked, ticket, /*weak=*/true,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
  }

  // The runner's threads, as often as they like.
  bool IsRequested(std::uint64_t ticket) const {
    return __atomic_load_n(&asked_, __ATOMIC_RELAXED) >= ticket;
  }
  // The word itself, for kernels: it is at least `ticket` when IsRequested(ticket). Read it atomically.
  const std::uint64_t* word() const { return &asked_; }

 private:
  // On a cache line of its own: whoever computes looks at it all the time. No std::atomic, because kernels,
  // which are compiled once per instruction set, read it through a plain pointer.
  alignas(64) std::uint64_t asked_ = 0;
};

}  // namespace skipjack
