// Which KV blocks hold one sequence's tokens, in order of position.
//
// The table owns one reference on each of its blocks and gives them back when it is destroyed. Blocks are
// filled by KvManager only, which must outlive its tables. Leading blocks may be shared with other tables; a
// shared block is full, published, and never written again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "kv/chain_hash.h"
#include "kv/prefix_index.h"

namespace skipjack {

class KvManager;

class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(BlockTable&& other) noexcept { Swap(other); }
  BlockTable& operator=(BlockTable&& other) noexcept {
    BlockTable old(std::move(other));
    Swap(old);
    return *this;
  }
  ~BlockTable();

  std::span<const BlockId> blocks() const { return blocks_; }
  std::int32_t size() const { return static_cast<std::int32_t>(blocks_.size()); }

  // Changes whenever the table gives its blocks up, so that a late completion can tell that it is late.
  std::uint64_t epoch() const { return epoch_; }

  // Names of the sequence's leading full blocks as far as they were needed so far.
  std::span<const ChainHash> hashes() const { return hashes_; }

  // Makes room for `blocks` blocks, so that growing up to there allocates nothing.
  void ReserveCapacity(std::int32_t blocks);

 private:
  friend class KvManager;

  void Swap(BlockTable& other) noexcept;

  KvManager* manager_ = nullptr;
  PrefixIndex::Link root_ = PrefixIndex::kNoLink;
  ChainHash seed_;
  std::vector<BlockId> blocks_;
  std::vector<ChainHash> hashes_;
  std::int32_t published_ = 0;  // leading blocks that have been offered to the index
  std::uint64_t epoch_ = 0;
};

}  // namespace skipjack
