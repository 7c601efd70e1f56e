// Counters of the copies between tiers.
#pragma once

#include <cstdint>

namespace skipjack {

// Blocks copied so far, by what became of them.
struct SwapCounts {
  std::uint64_t out = 0;      // from the device
  std::uint64_t in = 0;       // to the device
  std::uint64_t demoted = 0;  // from host memory to disk
  std::uint64_t before = 0;   // of all these, those that a step had to wait for
  std::uint64_t failed = 0;
  std::uint64_t dropped = 0;  // wanted contents given up because no tier had room
};

}  // namespace skipjack
