#include "kv/kv_manager.h"

#include <algorithm>
#include <string>

namespace skipjack {

KvManager::KvManager(const KvConfig& config)
    : config_(config), pool_(config.blocks), index_(config.blocks, config.block_tokens) {}

BlockTable KvManager::Open(std::string_view salt) {
  BlockTable table;
  table.manager_ = this;
  table.root_ = index_.OpenRoot(salt);
  table.seed_ = ChainSeed(salt);
  return table;
}

void KvManager::Close(BlockTable* table) {
  Release(table);
  index_.CloseRoot(table->root_);
}

std::int32_t KvManager::BlocksFor(std::int64_t tokens) const {
  return static_cast<std::int32_t>((tokens + config_.block_tokens - 1) / config_.block_tokens);
}

std::span<const TokenId> KvManager::BlockOf(std::span<const TokenId> tokens, std::size_t block) const {
  const auto size = static_cast<std::size_t>(config_.block_tokens);
  return tokens.subspan(block * size, size);
}

void KvManager::ExtendHashes(BlockTable* table, std::span<const TokenId> tokens, std::size_t blocks) const {
  for (std::size_t i = table->hashes_.size(); i < blocks; ++i) {
    table->hashes_.push_back(ChainExtend(i == 0 ? table->seed_ : table->hashes_[i - 1], BlockOf(tokens, i)));
  }
}

PrefixIndex::Link KvManager::LinkBefore(const BlockTable& table, std::size_t block) const {
  return block == 0 ? table.root_ : index_.LinkOf(table.blocks_[block - 1]);
}

void KvManager::Match(BlockTable* table, std::span<const TokenId> tokens, PrefixMatch* match) {
  match->blocks.clear();
  match->unreferenced = 0;
  if (!config_.prefix_cache) return;
  const std::size_t full = tokens.size() / static_cast<std::size_t>(config_.block_tokens);
  ExtendHashes(table, tokens, full);
  PrefixIndex::Link parent = table->root_;
  for (std::size_t i = 0; i < full; ++i) {
    const BlockId block = index_.Find(table->hashes_[i], parent, BlockOf(tokens, i));
    if (block == kNoBlock) return;
    match->blocks.push_back(block);
    if (pool_.IsCached(block)) ++match->unreferenced;
    parent = index_.LinkOf(block);
  }
}

bool KvManager::Admit(BlockTable* table, const PrefixMatch& match, std::int32_t tokens) {
  const std::int32_t matched = static_cast<std::int32_t>(match.blocks.size());
  if (table->size() != 0 || BlocksFor(tokens) - matched + match.unreferenced > available()) return false;
  for (const BlockId block : match.blocks) {
    pool_.AddReference(block);
    table->blocks_.push_back(block);
  }
  table->published_ = matched;
  return Reserve(table, tokens);
}

bool KvManager::Reserve(BlockTable* table, std::int32_t tokens) {
  const std::int32_t wanted = BlocksFor(tokens);
  if (wanted - table->size() > available()) return false;
  while (table->size() < wanted) table->blocks_.push_back(TakeBlock());
  return true;
}

BlockId KvManager::TakeBlock() {
  const BlockId free = pool_.TakeFree();
  if (free != kNoBlock) return free;
  const BlockId evicted = pool_.TakeLeastRecent();
  index_.Erase(evicted);
  return evicted;
}

void KvManager::Publish(BlockTable* table, std::span<const TokenId> computed) {
  if (!config_.prefix_cache) return;
  const std::size_t full = computed.size() / static_cast<std::size_t>(config_.block_tokens);
  for (auto i = static_cast<std::size_t>(table->published_); i < full; ++i) {
    const PrefixIndex::Link parent = LinkBefore(*table, i);
    if (parent == PrefixIndex::kNoLink) return;  // withdrawn: nothing after it can be found either
    ExtendHashes(table, computed, i + 1);
    BlockId& own = table->blocks_[i];
    const BlockId published = index_.Find(table->hashes_[i], parent, BlockOf(computed, i));
    if (published == kNoBlock) {
      index_.Insert(own, table->hashes_[i], parent, BlockOf(computed, i));
    } else {
      // The same tokens were computed twice at the same time. One copy is enough, and as every holder of a
      // block then holds its predecessors too, no block is ever evicted before those that follow it.
      pool_.AddReference(published);
      pool_.Release(own, Retention::kNone);
      own = published;
    }
    table->published_ = static_cast<std::int32_t>(i + 1);
  }
}

void KvManager::Release(BlockTable* table, bool wanted) {
  const Retention retention = wanted ? Retention::kWanted : Retention::kCached;
  for (auto block = table->blocks_.rbegin(); block != table->blocks_.rend(); ++block) {
    pool_.Release(*block, index_.Contains(*block) ? retention : Retention::kNone);
  }
  table->blocks_.clear();
  table->published_ = 0;
  ++table->epoch_;
}

void KvManager::Withdraw(const BlockTable& table) {
  for (const BlockId block : table.blocks_) index_.Erase(block);
}

Status KvManager::CheckInvariants(std::span<const BlockTable* const> tables) const {
  if (Status status = pool_.CheckInvariants(); !status.ok()) return status;
  if (Status status = index_.CheckInvariants(); !status.ok()) return status;

  std::vector<std::int32_t> references(static_cast<std::size_t>(pool_.total()), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks()) ++references[static_cast<std::size_t>(block)];
  }
  for (BlockId block = 0; block < pool_.total(); ++block) {
    const std::int32_t counted = references[static_cast<std::size_t>(block)];
    const auto fault = [block](const std::string& what) {
      return Status::Internal("kv: block " + std::to_string(block) + " " + what);
    };
    if (counted != pool_.References(block)) {
      return fault("is in " + std::to_string(counted) + " tables but has " +
                   std::to_string(pool_.References(block)) + " references");
    }
    if (pool_.IsCached(block) && !index_.Contains(block)) return fault("is cached but can not be found");
    if (counted == 0 && !pool_.IsCached(block) && index_.Contains(block))
      return fault("is free but can be found");
    if (counted > 1 && !config_.prefix_cache) return fault("is shared without a prefix cache");
  }
  return Status::Ok();
}

ReleasePreview::ReleasePreview(const KvManager& kv)
    : kv_(kv), released_(static_cast<std::size_t>(kv.pool().total()), 0) {
  touched_.reserve(released_.size());
}

void ReleasePreview::Start(const PrefixMatch& candidate) {
  for (const BlockId block : touched_) released_[static_cast<std::size_t>(block)] = 0;
  touched_.clear();
  freed_ = 0;
  for (const BlockId block : candidate.blocks) {
    released_[static_cast<std::size_t>(block)] = kNotCounted;
    touched_.push_back(block);
  }
}

std::int32_t ReleasePreview::Add(const BlockTable& table) {
  for (const BlockId block : table.blocks()) {
    std::int32_t& released = released_[static_cast<std::size_t>(block)];
    if (released == 0) touched_.push_back(block);
    if (++released == kv_.pool().References(block)) ++freed_;
  }
  return freed_;
}

}  // namespace skipjack
