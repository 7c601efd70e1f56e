#include "kv/kv_manager.h"

#include <algorithm>
#include <string>

namespace skipjack {

KvManager::KvManager(const KvConfig& config)
    : config_(config),
      pool_(config.blocks),
      swap_space_(config.tiers()),
      index_(config.tiers().total(), config.block_tokens),
      arriving_in_(static_cast<std::size_t>(config.tiers().total()), kNoBlock),
      loading_(static_cast<std::size_t>(config.blocks), 0),
      broken_(arriving_in_.size(), 0) {}

BlockTable KvManager::Open(std::string_view salt) {
  // Without sharing a sequence still finds its own blocks again, under a salt that nobody else has.
  std::string own_salt;
  if (!config_.prefix_cache && config_.swaps()) {
    own_salt = "sequence " + std::to_string(private_chains_++);
    salt = own_salt;
  }
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

// Where the leading full blocks of `tokens` lie.
void KvManager::FindChain(BlockTable* table, std::span<const TokenId> tokens,
                          std::vector<BlockId>* places) const {
  places->clear();
  if (!keeps_chains()) return;
  const std::size_t full = tokens.size() / static_cast<std::size_t>(config_.block_tokens);
  ExtendHashes(table, tokens, full);
  PrefixIndex::Link parent = table->root_;
  for (std::size_t i = 0; i < full; ++i) {
    const BlockId block = index_.Find(table->hashes_[i], parent, BlockOf(tokens, i));
    if (block == kNoBlock) return;
    places->push_back(block);
    parent = index_.LinkOf(block);
  }
}

void KvManager::Match(BlockTable* table, std::span<const TokenId> tokens, PrefixMatch* match) {
  match->unreferenced = 0;
  match->wanted = 0;
  match->swapped = 0;
  FindChain(table, tokens, &match->blocks);
  for (BlockId& block : match->blocks) {
    const BlockId arrives_in = arriving_in_[static_cast<std::size_t>(block)];
    if (arrives_in != kNoBlock) block = arrives_in;
    CountMatched(match, block, 1);
  }
}

void KvManager::CountMatched(PrefixMatch* match, BlockId block, std::int32_t change) const {
  if (!IsDevice(block)) {
    match->swapped += change;
  } else if (pool_.IsCached(block)) {
    match->unreferenced += change;
    if (pool_.IsWanted(block)) match->wanted += change;
  }
}

void KvManager::Shorten(PrefixMatch* match, std::size_t first) const {
  for (; match->blocks.size() > first; match->blocks.pop_back())
    CountMatched(match, match->blocks.back(), -1);
}

Admitted KvManager::Admit(BlockTable* table, const PrefixMatch& match, std::int32_t tokens, CopyTime time) {
  const auto matched = static_cast<std::int32_t>(match.blocks.size());
  if (table->size() != 0) return Admitted::kNo;
  if (BlocksFor(tokens) - matched + match.swapped + match.unreferenced > available()) return Admitted::kNo;
  // All of them are held before anything is evicted.
  for (const BlockId block : match.blocks) AddReference(block);
  Admitted admitted = Admitted::kReady;
  for (const BlockId block : match.blocks) {
    BlockId own = block;
    if (!IsDevice(block)) {
      own = TakeBlock();
      pool_.AddReference(own);  // the table's; the first is the copy's
      StartIn(block, own, config_.tiers().Of(block) == Tier::kDisk ? CopyTime::kBeside : time);
    }
    if (loading_[static_cast<std::size_t>(own)] != 0) admitted = Admitted::kLoading;
    table->blocks_.push_back(own);
  }
  table->published_ = matched;
  return Reserve(table, tokens) ? admitted : Admitted::kNo;
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
  const BlockId evicted = pool_.LeastRecent();
  const bool wanted = pool_.IsWanted(evicted);
  pool_.TakeLeastRecent();
  wanted ? Rescue(evicted) : index_.Erase(evicted);
  return evicted;
}

void KvManager::Publish(BlockTable* table, std::span<const TokenId> computed) {
  if (!keeps_chains()) return;
  const std::size_t full = computed.size() / static_cast<std::size_t>(config_.block_tokens);
  for (auto i = static_cast<std::size_t>(table->published_); i < full; ++i) {
    const PrefixIndex::Link parent = LinkBefore(*table, i);
    if (parent == PrefixIndex::kNoLink) return;  // withdrawn: nothing after it can be found either
    ExtendHashes(table, computed, i + 1);
    BlockId& own = table->blocks_[i];
    const BlockId published = index_.Find(table->hashes_[i], parent, BlockOf(computed, i));
    if (published == kNoBlock) {
      index_.Insert(own, table->hashes_[i], parent, BlockOf(computed, i));
    } else if (!IsDevice(published)) {
      // It was quicker to compute it again than to bring it back.
      index_.Move(published, own);
      swap_space_.AddReference(published);
      swap_space_.Release(published, Retention::kNone);
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
  const Retention kept = config_.prefix_cache ? Retention::kCached : Retention::kNone;
  const Retention retention = wanted && keeps_chains() ? Retention::kWanted : kept;
  for (auto block = table->blocks_.rbegin(); block != table->blocks_.rend(); ++block) {
    if (retention == Retention::kNone) index_.Erase(*block);
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

  if (Status status = swap_space_.host().CheckInvariants(); !status.ok()) return status;
  if (Status status = swap_space_.disk().CheckInvariants(); !status.ok()) return status;

  std::vector<std::int32_t> references(static_cast<std::size_t>(config_.tiers().total()), 0);
  for (const BlockTable* table : tables) {
    for (const BlockId block : table->blocks()) ++references[static_cast<std::size_t>(block)];
  }
  for (const Transfer& transfer : transfers_) {
    ++references[static_cast<std::size_t>(transfer.copy.to)];
    if (transfer.holds_source) ++references[static_cast<std::size_t>(transfer.copy.from)];
  }
  for (BlockId block = pool_.total(); block < config_.tiers().total(); ++block) {
    if (references[static_cast<std::size_t>(block)] != swap_space_.References(block) ||
        (swap_space_.IsCached(block) && !index_.Contains(block))) {
      return Status::Internal("kv: block " + std::to_string(block) + " of a lower tier is lost");
    }
  }
  for (BlockId block = 0; block < pool_.total(); ++block) {
    const std::int32_t counted = references[static_cast<std::size_t>(block)];
    const auto fault = [block](const std::string& what) {
      return Status::Internal("kv: block " + std::to_string(block) + " " + what);
    };
    if (counted != pool_.References(block)) {
      return fault("is in " + std::to_string(counted) + " tables and copies but has " +
                   std::to_string(pool_.References(block)) + " references");
    }
    if (pool_.IsCached(block) && !index_.Contains(block)) return fault("is cached but can not be found");
    if (counted == 0 && !pool_.IsCached(block) && index_.Contains(block))
      return fault("is free but can be found");
    if (counted > 1 && !keeps_chains()) return fault("is shared without a prefix cache");
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
    if (block >= kv_.pool().total()) continue;
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
