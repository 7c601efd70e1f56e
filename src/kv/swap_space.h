// The blocks of host memory and disk: who is free, and what is kept in the others.
//
// They are numbered as TierSizes says. A block is used while a copy reads or writes it, and cached while it
// holds contents; no block table ever refers to it. O(1) each, allocates nothing, not thread-safe.
#pragma once

#include <cstdint>

#include "base/block_copy.h"
#include "base/types.h"
#include "kv/block_pool.h"

namespace skipjack {

class SwapSpace {
 public:
  explicit SwapSpace(const TierSizes& sizes) : sizes_(sizes), host_(sizes.host), disk_(sizes.disk) {}

  // A block to copy into, with one reference. Host memory first, then disk; where both are full, the one
  // whose contents were put there longest ago and that nobody waits for is given up: `*lost` is that block,
  // whose contents the caller forgets, else kNoBlock. kNoBlock when somebody waits for all there is.
  BlockId Take(BlockId* lost);

  // The same for contents that must leave the device at once: in host memory only, and whoever waits for what
  // is oldest there loses it. kNoBlock when there is no host memory, or all of it is being copied.
  BlockId TakeAtOnce(BlockId* lost);

  // Whether Take() would give a block.
  bool HasRoom() const;

  // A free block on disk, with one reference; kNoBlock when all are taken.
  BlockId TakeFreeDisk();

  // The host block whose contents were put there longest ago; kNoBlock when there are none.
  BlockId OldestHost() const;

  void AddReference(BlockId block) { PoolOf(block).AddReference(block - BaseOf(block)); }
  void Release(BlockId block, Retention retention) {
    PoolOf(block).Release(block - BaseOf(block), retention);
  }
  // Nobody waits for the block's contents any more.
  void Unwant(BlockId block) { PoolOf(block).Unwant(block - BaseOf(block)); }

  std::int32_t References(BlockId block) const { return PoolOf(block).References(block - BaseOf(block)); }
  bool IsCached(BlockId block) const { return PoolOf(block).IsCached(block - BaseOf(block)); }
  bool IsWanted(BlockId block) const { return PoolOf(block).IsWanted(block - BaseOf(block)); }

  const BlockPool& host() const { return host_; }
  const BlockPool& disk() const { return disk_; }

 private:
  bool IsHost(BlockId block) const { return block < sizes_.device + sizes_.host; }
  BlockId BaseOf(BlockId block) const { return IsHost(block) ? sizes_.device : sizes_.device + sizes_.host; }
  BlockPool& PoolOf(BlockId block) { return IsHost(block) ? host_ : disk_; }
  const BlockPool& PoolOf(BlockId block) const { return IsHost(block) ? host_ : disk_; }
  BlockId FromHost(BlockId index) const { return index == kNoBlock ? kNoBlock : sizes_.device + index; }
  BlockId FromDisk(BlockId index) const {
    return index == kNoBlock ? kNoBlock : sizes_.device + sizes_.host + index;
  }

  const TierSizes sizes_;
  BlockPool host_;
  BlockPool disk_;
};

}  // namespace skipjack
