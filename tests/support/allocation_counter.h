// Counts every allocation of the process, on all threads. Its source replaces the global allocation
// functions, so a test binary that counts compiles it in by itself.
#pragma once

#include <cstdint>

namespace skipjack {

// Since the process started.
std::uint64_t AllocationCount();

}  // namespace skipjack
