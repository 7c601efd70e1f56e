// Counts every allocation of the process, on all threads, while it is switched on.
#pragma once

namespace skipjack {

void StartCountingAllocations();
long StopCountingAllocations();

}  // namespace skipjack
