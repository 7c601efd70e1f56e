#include "backend/cpu/kv_store.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace skipjack {

Status KvStore::Allocate(MemoryPromise& memory, const std::string& disk_folder) {
  Result<HugeBuffer> device = memory.Allocate(device_bytes(), "the KV pool");
  if (!device.ok()) return device.status();
  device_ = std::move(*device);
  if (sizes_.host > 0) {
    Result<HugeBuffer> host = memory.Allocate(host_bytes(), "the KV pool in host memory");
    if (!host.ok()) return host.status();
    host_ = std::move(*host);
  }
  if (sizes_.disk == 0) return {};
  Result<std::unique_ptr<DiskBlocks>> disk = DiskBlocks::Create(disk_folder, sizes_.disk, block_bytes_);
  if (!disk.ok()) return disk.status();
  disk_ = std::move(*disk);
  return {};
}

std::byte* KvStore::Memory(BlockId block) const {
  if (sizes_.Of(block) == Tier::kDevice) return device_.data() + block * block_bytes_;
  return host_.data() + (block - sizes_.device) * block_bytes_;
}

bool KvStore::HasDisk(const BlockCopy& copy) const {
  return sizes_.Of(copy.from) == Tier::kDisk || sizes_.Of(copy.to) == Tier::kDisk;
}

void KvStore::Copy(std::span<const BlockCopy> copies, CopyReport* report) {
  while (!copies.empty()) {
    const TimePoint start = SystemClock().Now();
    std::size_t done = 0;
    if (HasDisk(copies.front())) {
      done = CopyWithDisk(copies, report);
      report->disk_seconds += ToSeconds(SystemClock().Now() - start);
    } else {
      for (; done < copies.size() && !HasDisk(copies[done]); ++done) CopyInMemory(copies[done]);
      report->host_seconds += ToSeconds(SystemClock().Now() - start);
    }
    copies = copies.subspan(done);
  }
}

void KvStore::CopyInMemory(const BlockCopy& copy) {
  std::memcpy(Memory(copy.to), Memory(copy.from), static_cast<std::size_t>(block_bytes_));
}

std::size_t KvStore::CopyWithDisk(std::span<const BlockCopy> copies, CopyReport* report) {
  const std::size_t count = static_cast<std::size_t>(
      std::ranges::find_if_not(copies, [this](const BlockCopy& copy) { return HasDisk(copy); }) -
      copies.begin());
  const BlockId first_on_disk = sizes_.device + sizes_.host;
  std::vector<DiskTransfer> transfers;
  transfers.reserve(count);
  for (const BlockCopy& copy : copies.first(count)) {
    const bool write = sizes_.Of(copy.to) == Tier::kDisk;
    transfers.push_back({.block = (write ? copy.to : copy.from) - first_on_disk,
                         .memory = Memory(write ? copy.from : copy.to),
                         .write = write});
  }
  disk_->Run(transfers);
  for (std::size_t i = 0; i < count; ++i) {
    if (transfers[i].status.ok()) continue;
    report->failed.push_back(copies[i].to);
    report->why = transfers[i].status.message();
  }
  return count;
}

}  // namespace skipjack
