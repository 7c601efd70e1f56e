// A fixed number of KV blocks: who is free, who is in use and how often, and who is kept for prefix hits.
//
// A block is in exactly one of three places:
//   free    nobody refers to it and its contents mean nothing
//   used    one or more block tables refer to it
//   cached  nobody refers to it, but its contents may be found again; the least recently released one is
//   reused first, and those that are sure to be wanted again after all others
// Every operation is O(1) and allocates nothing. Not thread-safe: the scheduler's owner owns it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace skipjack {

inline constexpr BlockId kNoBlock = -1;

// What becomes of a block that nobody refers to any more.
enum class Retention : std::uint8_t {
  kNone,    // free
  kCached,  // somebody may want it again
  kWanted,  // its owner is waiting to take it back
};

class BlockPool {
 public:
  explicit BlockPool(std::int32_t total);

  // A free block, now used with one reference; kNoBlock when none is free. Cached blocks are left alone.
  BlockId TakeFree();

  // The cached block released longest ago, of those that are not wanted if there are any; now used with one
  // reference. kNoBlock when none is cached. The caller forgets its contents.
  BlockId TakeLeastRecent();

  // The block that TakeLeastRecent() would take.
  BlockId LeastRecent() const { return lists_[0].oldest != kNoBlock ? lists_[0].oldest : lists_[1].oldest; }

  // Nobody waits any more for what the block holds.
  void Unwant(BlockId block);

  // One more reference to a used or cached block.
  void AddReference(BlockId block);

  // One reference less. With the last one the block is free, or cached as the most recent; wanted if anybody
  // who released it since it was last taken wants it.
  void Release(BlockId block, Retention retention);

  std::int32_t References(BlockId block) const { return entries_[Index(block)].references; }
  bool IsCached(BlockId block) const { return entries_[Index(block)].place == Place::kCached; }
  bool IsWanted(BlockId block) const { return entries_[Index(block)].wanted; }

  std::int32_t total() const { return static_cast<std::int32_t>(entries_.size()); }
  std::int32_t free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t cached() const { return lists_[0].count + lists_[1].count; }
  std::int32_t wanted() const { return lists_[1].count; }  // of the cached ones
  std::int32_t used() const { return total() - free() - cached(); }

  // References taken or released wrongly so far: a defect of the caller.
  std::int32_t misuses() const { return misuses_; }
  // Walks everything; for tests and soak runs.
  Status CheckInvariants() const;

 private:
  enum class Place : std::uint8_t { kFree, kUsed, kCached };

  struct Entry {
    std::int32_t references = 0;
    BlockId older = kNoBlock;  // neighbours in the cached list
    BlockId newer = kNoBlock;
    Place place = Place::kFree;
    bool wanted = false;  // which of the two lists, while cached
  };
  struct List {
    BlockId oldest = kNoBlock;
    BlockId newest = kNoBlock;
    std::int32_t count = 0;
  };

  static std::size_t Index(BlockId block) { return static_cast<std::size_t>(block); }
  void LinkNewest(BlockId block);
  void Unlink(BlockId block);
  List& ListOf(const Entry& entry) { return lists_[entry.wanted ? 1 : 0]; }

  std::vector<Entry> entries_;
  std::vector<BlockId> free_;  // a stack, so that the block used last is reused first
  std::array<List, 2> lists_;  // cached blocks: the others, the wanted
  std::int32_t misuses_ = 0;
};

}  // namespace skipjack
