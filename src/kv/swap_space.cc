#include "kv/swap_space.h"

namespace skipjack {

BlockId SwapSpace::Take(BlockId* lost) {
  *lost = kNoBlock;
  if (const BlockId host = host_.TakeFree(); host != kNoBlock) return FromHost(host);
  if (const BlockId disk = disk_.TakeFree(); disk != kNoBlock) return FromDisk(disk);
  // What lies on disk was put there longer ago than anything in host memory.
  if (disk_.cached() > disk_.wanted()) return *lost = FromDisk(disk_.TakeLeastRecent());
  if (host_.cached() > host_.wanted()) return *lost = FromHost(host_.TakeLeastRecent());
  return kNoBlock;
}

BlockId SwapSpace::TakeAtOnce(BlockId* lost) {
  *lost = kNoBlock;
  if (const BlockId host = host_.TakeFree(); host != kNoBlock) return FromHost(host);
  return *lost = FromHost(host_.TakeLeastRecent());
}

bool SwapSpace::HasRoom() const {
  return host_.free() + disk_.free() > 0 || disk_.cached() > disk_.wanted() ||
         host_.cached() > host_.wanted();
}

BlockId SwapSpace::TakeFreeDisk() {
  return FromDisk(disk_.TakeFree());
}

BlockId SwapSpace::OldestHost() const {
  return FromHost(host_.LeastRecent());
}

}  // namespace skipjack
