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
  const BlockId block = oldest_;
  if (block == kNoBlock) return kNoBlock;
  Unlink(block);
  entries_[Index(block)].place = Place::kUsed;
  entries_[Index(block)].references = 1;
  return block;
}

void BlockPool::AddReference(BlockId block) {
  Entry& entry = entries_[Index(block)];
  if (entry.place == Place::kFree) {
    ++misuses_;
    return;
  }
  if (entry.place == Place::kCached) Unlink(block);
  entry.place = Place::kUsed;
  ++entry.references;
}

void BlockPool::Release(BlockId block, bool keep) {
  Entry& entry = entries_[Index(block)];
  if (entry.references == 0) {
    ++misuses_;
    return;
  }
  if (--entry.references > 0) return;
  if (keep) {
    entry.place = Place::kCached;
    LinkNewest(block);
  } else {
    entry.place = Place::kFree;
    free_.push_back(block);
  }
}

void BlockPool::LinkNewest(BlockId block) {
  Entry& entry = entries_[Index(block)];
  entry.older = newest_;
  entry.newer = kNoBlock;
  if (newest_ != kNoBlock) entries_[Index(newest_)].newer = block;
  newest_ = block;
  if (oldest_ == kNoBlock) oldest_ = block;
  ++cached_;
}

void BlockPool::Unlink(BlockId block) {
  Entry& entry = entries_[Index(block)];
  if (entry.older != kNoBlock) entries_[Index(entry.older)].newer = entry.newer;
  if (entry.newer != kNoBlock) entries_[Index(entry.newer)].older = entry.older;
  if (oldest_ == block) oldest_ = entry.newer;
  if (newest_ == block) newest_ = entry.older;
  entry.older = kNoBlock;
  entry.newer = kNoBlock;
  --cached_;
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
  BlockId previous = kNoBlock;
  for (BlockId block = oldest_; block != kNoBlock; block = entries_[Index(block)].newer) {
    const Entry& entry = entries_[Index(block)];
    if (entry.place != Place::kCached || entry.older != previous || listed[Index(block)]++ != 0) {
      return fault("block " + std::to_string(block) + " is wrongly in the cached list");
    }
    previous = block;
    ++cached;
  }
  if (previous != newest_ || cached != cached_) {
    return fault("the cached list has " + std::to_string(cached) + " blocks, not " + std::to_string(cached_));
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
