// What the process allocates, on all threads, while it is measured.
#pragma once

#include <cstddef>

namespace skipjack {

struct MeasuredMemory {
  std::size_t peak = 0;         // bytes, over what there was at the beginning
  std::size_t allocations = 0;  // calls
};

void StartMeasuringMemory();
MeasuredMemory StopMeasuringMemory();

}  // namespace skipjack
