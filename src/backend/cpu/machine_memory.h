// How much memory this process has, and how much of it is left.
#pragma once

#include <cstdint>
#include <string>

namespace skipjack {

struct MachineMemory {
  std::int64_t total = 0;  // RAM, or the least of the memory limits of our control groups
  // The kernel's estimate of available memory, or what the control groups leave if that is less. File pages
  // count as available: they are given back under pressure.
  std::int64_t available = 0;
};

// Our own group's limit counts, and so does every parent's (versions 1 and 2). `root` is put before /proc and
// /sys.
MachineMemory ReadMachineMemory(const std::string& root = "");

}  // namespace skipjack
