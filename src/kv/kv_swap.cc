// How KvManager moves contents between tiers; see kv_manager.h for the rules.
#include <algorithm>

#include "kv/kv_manager.h"

namespace skipjack {

void KvManager::AddReference(BlockId block) {
  IsDevice(block) ? pool_.AddReference(block) : swap_space_.AddReference(block);
}

void KvManager::ReleaseBlock(BlockId block, Retention retention) {
  if (!index_.Contains(block)) retention = Retention::kNone;
  IsDevice(block) ? pool_.Release(block, retention) : swap_space_.Release(block, retention);
}

void KvManager::Start(const Transfer& transfer) {
  transfers_.push_back(transfer);
  if (transfer.time == CopyTime::kBefore) ++swap_counts_.before;
}

void KvManager::Rescue(BlockId block) {
  BlockId lost = kNoBlock;
  const BlockId host = swap_space_.TakeAtOnce(&lost);
  if (lost != kNoBlock) {
    index_.Erase(lost);
    ++swap_counts_.dropped;
  }
  if (host == kNoBlock) {
    index_.Erase(block);
    ++swap_counts_.dropped;
    return;
  }
  index_.Move(block, host);
  ++swap_counts_.out;
  Start({{block, host}, CopyTime::kBefore, /*holds_source=*/false, /*wanted=*/true});
}

bool KvManager::StartOut(BlockId block, bool wanted) {
  BlockId lost = kNoBlock;
  const BlockId to = swap_space_.Take(&lost);
  if (to == kNoBlock) return false;
  if (lost != kNoBlock) index_.Erase(lost);
  pool_.AddReference(block);
  ++swap_counts_.out;
  Start({{block, to}, CopyTime::kBeside, /*holds_source=*/true, wanted});
  return true;
}

// `from` has been given a reference for it, `to` has its first one.
void KvManager::StartIn(BlockId from, BlockId to, CopyTime time) {
  arriving_in_[static_cast<std::size_t>(from)] = to;
  if (time == CopyTime::kBeside) loading_[static_cast<std::size_t>(to)] = 1;
  ++swap_counts_.in;
  Start({{from, to}, time, /*holds_source=*/true, /*wanted=*/true});
}

std::int32_t KvManager::SwapOut(BlockTable* table, std::span<const TokenId> tokens, std::int32_t limit) {
  FindChain(table, tokens, &walk_);
  std::int32_t started = 0;
  for (auto at = walk_.rbegin(); at != walk_.rend() && started < limit; ++at) {
    if (!IsDevice(*at) || !pool_.IsCached(*at)) continue;
    if (!StartOut(*at, /*wanted=*/true)) break;
    ++started;
  }
  return started;
}

std::int32_t KvManager::SwapIn(BlockTable* table, std::span<const TokenId> tokens, std::int32_t limit) {
  FindChain(table, tokens, &walk_);
  std::int32_t started = 0;
  for (const BlockId block : walk_) {
    if (started == limit) break;
    if (IsDevice(block) || !swap_space_.IsCached(block)) continue;
    // Only into free blocks: bringing one in must not push another out.
    const BlockId to = pool_.TakeFree();
    if (to == kNoBlock) break;
    swap_space_.AddReference(block);
    StartIn(block, to, CopyTime::kBeside);
    ++started;
  }
  return started;
}

std::int32_t KvManager::SwapOutUnwanted(std::int32_t limit) {
  const std::int32_t most = std::min(limit, swap_space_.host().free());
  std::int32_t started = 0;
  while (started < most) {
    const BlockId block = pool_.LeastRecent();
    if (block == kNoBlock || pool_.IsWanted(block) || !StartOut(block, /*wanted=*/false)) break;
    ++started;
  }
  return started;
}

std::int32_t KvManager::Demote(std::int32_t free, std::int32_t limit) {
  std::int32_t started = 0;
  while (started < limit && swap_space_.host().free() + started < free) {
    const BlockId from = swap_space_.OldestHost();
    if (from == kNoBlock) break;
    const BlockId to = swap_space_.TakeFreeDisk();
    if (to == kNoBlock) break;
    const bool wanted = swap_space_.IsWanted(from);
    swap_space_.AddReference(from);
    ++swap_counts_.demoted;
    Start({{from, to}, CopyTime::kBeside, /*holds_source=*/true, wanted});
    ++started;
  }
  return started;
}

void KvManager::Forsake(BlockTable* table, std::span<const TokenId> tokens) {
  FindChain(table, tokens, &walk_);
  for (auto at = walk_.rbegin(); at != walk_.rend(); ++at) {
    if (!config_.prefix_cache) {
      // Nobody else can ever find it.
      const bool cached = IsDevice(*at) ? pool_.IsCached(*at) : swap_space_.IsCached(*at);
      if (cached) AddReference(*at);
      index_.Erase(*at);
      if (cached) ReleaseBlock(*at, Retention::kNone);
    } else if (IsDevice(*at)) {
      pool_.Unwant(*at);
    } else {
      swap_space_.Unwant(*at);
    }
  }
}

void KvManager::TakeCopies(std::vector<BlockCopy>* before, std::vector<BlockCopy>* beside) {
  before->clear();
  beside->clear();
  for (; taken_ < transfers_.size(); ++taken_) {
    const Transfer& transfer = transfers_[taken_];
    (transfer.time == CopyTime::kBefore ? before : beside)->push_back(transfer.copy);
  }
}

void KvManager::Settle(std::span<const BlockId> failed) {
  if (has_broken_) std::ranges::fill(broken_, 0);
  has_broken_ = !failed.empty();
  for (const BlockId block : failed) broken_[static_cast<std::size_t>(block)] = 1;
  for (const Transfer& transfer : transfers_) {
    char& broken = broken_[static_cast<std::size_t>(transfer.copy.to)];
    // What was read from a block that was never written is worth nothing either.
    broken |= transfer.holds_source ? broken_[static_cast<std::size_t>(transfer.copy.from)] : char{0};
    SettleOne(transfer, broken != 0);
  }
  transfers_.clear();
  taken_ = 0;
}

void KvManager::SettleOne(const Transfer& transfer, bool failed) {
  const auto [from, to] = transfer.copy;
  const Retention retention = transfer.wanted ? Retention::kWanted : Retention::kCached;
  if (failed) ++swap_counts_.failed;
  if (!transfer.holds_source) {
    if (failed) index_.Erase(to);
    ReleaseBlock(to, retention);
    return;
  }
  if (IsDevice(to)) {
    arriving_in_[static_cast<std::size_t>(from)] = kNoBlock;
    loading_[static_cast<std::size_t>(to)] = 0;
    if (failed) index_.Erase(from);  // it could not be read
  }
  // Where they were withdrawn, or somebody took the source up again, the copy is of no use.
  const bool in_use = IsDevice(from) && pool_.References(from) > 1;
  if (!failed && !in_use && index_.Contains(from)) index_.Move(from, to);
  ReleaseBlock(from, retention);
  ReleaseBlock(to, retention);
}

void KvManager::Prune() {
  // An eighth of the blocks dropped: the work of a pass is that of a few steps for each block.
  const auto many = static_cast<std::uint64_t>(config_.tiers().total()) / 8;
  if (!has_broken_ && swap_counts_.dropped - pruned_at_ <= many) return;
  pruned_at_ = swap_counts_.dropped;
  for (const BlockId block : index_.Orphans()) {
    const bool cached = IsDevice(block) ? pool_.IsCached(block) : swap_space_.IsCached(block);
    if (!cached) continue;
    AddReference(block);
    index_.Erase(block);
    ReleaseBlock(block, Retention::kNone);
  }
}

bool KvManager::IsBroken(const BlockTable& table) const {
  return has_broken_ && std::ranges::any_of(table.blocks(), [this](BlockId block) {
           return broken_[static_cast<std::size_t>(block)] != 0;
         });
}

}  // namespace skipjack
