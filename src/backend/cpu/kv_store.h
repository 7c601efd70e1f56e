// The KV blocks of the CPU engine in all tiers, and the copies between them.
//
// "Device" blocks are the arena that steps compute in; host blocks are another one, in memory as well: on a
// machine without a GPU that is of use for a device pool which is kept small, and it is how the machinery
// that GPUs need is run everywhere. Blocks on disk are in a file (see DiskBlocks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/cpu/disk_blocks.h"
#include "backend/cpu/huge_buffer.h"
#include "backend/cpu/memory_ledger.h"
#include "backend/model_runner.h"
#include "base/block_copy.h"
#include "base/status.h"

namespace skipjack {

class KvStore {
 public:
  KvStore(const TierSizes& sizes, std::int64_t block_bytes) : sizes_(sizes), block_bytes_(block_bytes) {}

  std::int64_t device_bytes() const { return sizes_.device * block_bytes_; }
  std::int64_t host_bytes() const { return sizes_.host * block_bytes_; }

  // `disk_folder`: where the file is made; not looked at without disk blocks.
  Status Allocate(MemoryPromise& memory, const std::string& disk_folder);

  std::byte* device() const { return device_.data(); }

  // See ModelRunner::CopyBlocks. Copies between device and host do not fail.
  void Copy(std::span<const BlockCopy> copies, CopyReport* report);

 private:
  std::byte* Memory(BlockId block) const;  // of device and host
  void CopyInMemory(const BlockCopy& copy);
  // The leading copies that have a disk at one end; returns how many.
  std::size_t CopyWithDisk(std::span<const BlockCopy> copies, CopyReport* report);
  bool HasDisk(const BlockCopy& copy) const;

  const TierSizes sizes_;
  const std::int64_t block_bytes_;
  HugeBuffer device_;
  HugeBuffer host_;
  std::unique_ptr<DiskBlocks> disk_;
};

}  // namespace skipjack
