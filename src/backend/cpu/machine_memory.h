// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace skipjack {

// The kernel's estimate of available memory, or what the memory limits of our control groups leave if that is
// less. File pages count as free: they are given back under pressure. `root` is put before /proc and /sys.
std::int64_t AvailableMemory(const std::string& root = "");

}  // namespace skipjack
