// How a long call learns that its result is no longer wanted.
#pragma once

#include <cstdint>

namespace skipjack::kernels {

// Raised when another thread has written `ticket`, or a larger number, to *asked (atomically). It stays
// raised as long as *asked never falls. A call that sees it raised returns soon and leaves its output
// undefined.
struct StopSignal {
  const std::uint64_t* asked = nullptr;  // null: never
  std::uint64_t ticket = 0;

  // A builtin and always inlined: kernels are compiled once per instruction set and must not share functions
  // (see internal/linear_kernels.inc.h).
  [[gnu::always_inline]] bool IsRaised() const {
    return asked != nullptr && __atomic_load_n(asked, __ATOMIC_RELAXED) >= ticket;
  }
};

}  // namespace skipjack::kernels
