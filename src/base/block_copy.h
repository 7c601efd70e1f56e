// Where the contents of a KV block lie, and the copies that bring them from one place to another.
//
// The blocks of a replica are numbered in one row: those of the device, on which steps compute, then those in
// host memory, then those on disk. A BlockId thus says which tier it belongs to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace skipjack {

enum class Tier : std::uint8_t { kDevice, kHost, kDisk };

// In blocks.
struct TierSizes {
  std::int32_t device = 0;
  std::int32_t host = 0;
  std::int32_t disk = 0;

  std::int32_t total() const { return device + host + disk; }
  Tier Of(BlockId block) const {
    if (block < device) return Tier::kDevice;
    return block < device + host ? Tier::kHost : Tier::kDisk;
  }
};

// "Copy this block's contents into that one". The tiers of the two differ.
struct BlockCopy {
  BlockId from = 0;
  BlockId to = 0;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

// What became of some copies.
struct CopyReport {
  std::vector<BlockId> failed;  // the targets of those that failed
  std::string why;              // of the last that failed
  // What they took: those between device and host, and those with a disk.
  double host_seconds = 0;
  double disk_seconds = 0;
};

}  // namespace skipjack
