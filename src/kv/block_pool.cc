#include "kv/block_pool.h"

#include <string>

namespace skipjack {

BlockPool::BlockPool(std::int32_t total) : entries_(Index(total)) {
  free_.reserve(entries_.size());
  for (BlockId block = total - 1; block >= 0; --block) free_.push_back(block);
}

BlockId BlockPool::TakeFree() {
  if (free_.empty()) return kNoBlock;
  const BlockId block = free_.back();
  free_.pop_back();
  entries_[Index(block)].place = Place::kUsed;
  entries_[Index(block)].references = 1;
  return block;
}

BlockId BlockPool::TakeLeastRecent() {
  const BlockId block = LeastRecent();
  if (block == kNoBlock) return kNoBlock;
  Unlink(block);
  entries_[Index(block)].wanted = false;
  entries_[Index(block)].place = Place::kUsed;
  entries_[Index(block)].references = 1;
  return block;
}

void BlockPool::Unwant(BlockId block) {
  Entry& entry = entries_[Index(block)];
  if (!entry.wanted) return;
  if (entry.place != Place::kCached) {
    entry.wanted = false;
    return;
  }
  Unlink(block);
  entry.wanted = false;
  LinkNewest(block);
}

void BlockPool::AddReference(BlockId block) {
  Entry& entry = entries_[Index(block)];
  if (entry.place == Place::kFree) {
    ++misuses_;
    return;
  }
  if (entry.place == Place::kCached) {
    Unlink(block);
    entry.wanted = false;
  }
  entry.place = Place::kUsed;
  ++entry.references;
}

void BlockPool::Release(BlockId block, Retention retention) {
  Entry& entry = entries_[Index(block)];
  if (entry.references == 0) {
    ++misuses_;
    return;
  }
  if (retention == Retention::kWanted) entry.wanted = true;
  if (--entry.references > 0) return;
  if (retention != Retention::kNone) {
    entry.place = Place::kCached;
    LinkNewest(block);
  } else {
    entry.place = Place::kFree;
    entry.wanted = false;
    free_.push_back(block);
  }
}

void BlockPool::LinkNewest(BlockId block) {
  Entry& entry = entries_[Index(block)];
  List& list = ListOf(entry);
  entry.older = list.newest;
  entry.newer = kNoBlock;
  if (list.newest != kNoBlock) entries_[Index(list.newest)].newer = block;
  list.newest = block;
  if (list.oldest == kNoBlock) list.oldest = block;
  ++list.count;
}

void BlockPool::Unlink(BlockId block) {
  Entry& entry = entries_[Index(block)];
  List& list = ListOf(entry);
  if (entry.older != kNoBlock) entries_[Index(entry.older)].newer = entry.newer;
  if (entry.newer != kNoBlock) entries_[Index(entry.newer)].older = entry.older;
  if (list.oldest == block) list.oldest = entry.newer;
  if (list.newest == block) list.newest = entry.older;
  entry.older = kNoBlock;
  entry.newer = kNoBlock;
  --list.count;
}

Status BlockPool::CheckInvariants() const {
  const auto fault = [](const std::string& what) { return Status::Internal("block pool: " + what); };
  if (misuses_ != 0) return fault(std::to_string(misuses_) + " references taken or released wrongly");

  std::vector<char> listed(entries_.size(), 0);
  for (const BlockId block : free_) {
    if (entries_[Index(block)].place != Place::kFree || listed[Index(block)]++ != 0) {
      return fault("block " + std::to_string(block) + " is wrongly in the free list");
    }
  }
  std::int32_t cached = 0;
  for (const bool wanted : {false, true}) {
    const List& list = lists_[wanted ? 1 : 0];
    BlockId previous = kNoBlock;
    for (BlockId block = list.oldest; block != kNoBlock; block = entries_[Index(block)].newer) {
      const Entry& entry = entries_[Index(block)];
      if (entry.place != Place::kCached || entry.wanted != wanted || entry.older != previous ||
          listed[Index(block)]++ != 0) {
        return fault("block " + std::to_string(block) + " is wrongly in a cached list");
      }
      previous = block;
      ++cached;
    }
    if (previous != list.newest) return fault("a cached list does not end where it should");
  }
  if (cached != this->cached()) {
    return fault("the cached lists have " + std::to_string(cached) + " blocks, not " +
                 std::to_string(this->cached()));
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const bool in_use = entries_[i].place == Place::kUsed;
    if (in_use == (listed[i] != 0) || in_use != (entries_[i].references > 0)) {
      return fault("block " + std::to_string(i) + " is in no place or in two");
    }
  }
  return Status::Ok();
}

}  // namespace skipjack
