// Owns the KV blocks of one model replica, in all tiers, and decides which contents stay findable and where.
//
// A block's way: Reserve() gives it to one table, a step fills it, Publish() makes it findable, other tables
// take it by Match() and Admit(), the last Release() leaves it cached until somebody else needs the space.
// What was not published is free again at once.
//
// Eviction takes the block released longest ago, of those that nobody waits for if there are any. A table
// gives its blocks up from the last to the first, and whoever holds a block holds all before it, so a chain
// is evicted from its leaves; the part that is left stays findable from its root.
//
// Lower tiers (host memory, disk) hold contents that nobody computes with now. Contents lie in one place at a
// time: a copy that has ended well moves them, until then they count as where they came from. Both blocks of
// a copy stay put from the decision until Settle(). Copies belong to one step: those of `before` are made, in
// their order, before it computes, those of `beside` while it computes, and Settle() follows when all have
// ended. Copies between device and host fail only with the device itself; those with a disk may fail alone.
//
// Allocates nothing in Reserve, Publish and Release once a table has the capacity. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/block_copy.h"
#include "base/status.h"
#include "base/types.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/prefix_index.h"
#include "kv/swap_counts.h"
#include "kv/swap_space.h"

namespace skipjack {

struct KvConfig {
  std::int32_t blocks = 0;  // of the device
  std::int32_t block_tokens = 16;
  bool prefix_cache = true;  // whether sequences share what they have in common
  std::int32_t host_blocks = 0;
  std::int32_t disk_blocks = 0;

  TierSizes tiers() const { return {blocks, host_blocks, disk_blocks}; }
  bool swaps() const { return host_blocks + disk_blocks > 0; }
};

// Leading blocks of a prompt whose contents are there. Valid until blocks are next reserved or evicted.
struct PrefixMatch {
  std::vector<BlockId> blocks;
  std::int32_t unreferenced = 0;  // of these, cached ones: taking them lessens available()
  std::int32_t wanted = 0;        // of the cached ones, those that somebody waits for
  std::int32_t swapped = 0;       // of these, ones in lower tiers: each takes a device block
};

enum class CopyTime : std::uint8_t { kBefore, kBeside };  // the step's computing

enum class Admitted : std::uint8_t {
  kNo,
  kReady,
  kLoading,  // some blocks arrive while the step computes: the table's tokens are there after Settle()
};

class KvManager {
 public:
  explicit KvManager(const KvConfig& config);
  KvManager(const KvManager&) = delete;
  KvManager& operator=(const KvManager&) = delete;

  // An empty table. Only tables with equal salts share blocks.
  BlockTable Open(std::string_view salt);

  // Finds the longest chain of full blocks that holds the first of `tokens` (those of the table's own
  // sequence). Takes nothing yet.
  void Match(BlockTable* table, std::span<const TokenId> tokens, PrefixMatch* match);

  // Leaves out of the match all from the block number `first` on.
  void Shorten(PrefixMatch* match, std::size_t first) const;

  // Takes the matched blocks into an empty table, then reserves up to `tokens` tokens. All or nothing. What
  // lies in a lower tier is copied at `time`; what lies on disk always beside the step.
  Admitted Admit(BlockTable* table, const PrefixMatch& match, std::int32_t tokens,
                 CopyTime time = CopyTime::kBefore);

  // Makes the table cover `tokens` tokens, evicting cached blocks if it must. All or nothing. Contents that
  // somebody waits for are copied to host memory before the step, if there is any.
  bool Reserve(BlockTable* table, std::int32_t tokens);

  // The steps that wrote `computed` (the sequence's tokens from position 0 on) have completed: full blocks
  // among them become findable. A block whose contents somebody else published first is given back in favour
  // of that one.
  void Publish(BlockTable* table, std::span<const TokenId> computed);

  // The table is empty afterwards and its epoch is a new one. `wanted`: its sequence comes back for what is
  // cached, which is evicted after everything else.
  void Release(BlockTable* table, bool wanted = false);

  // Nothing in the table may be found by others any more (its contents are not to be trusted); tables that
  // share blocks with it keep them.
  void Withdraw(const BlockTable& table);

  // Of the sequence whose `tokens` these are (its table is empty), begins to copy what nobody uses out of the
  // device, the last block first, or back into it, the first block first; beside the step, at most `limit`
  // blocks. Returns how many.
  std::int32_t SwapOut(BlockTable* table, std::span<const TokenId> tokens, std::int32_t limit);
  std::int32_t SwapIn(BlockTable* table, std::span<const TokenId> tokens, std::int32_t limit);
  // The same for the prefixes that nobody waits for, least recently used first, while host memory has free
  // blocks for them; and from host memory to disk, so that `free` host blocks stay free.
  std::int32_t SwapOutUnwanted(std::int32_t limit);
  std::int32_t Demote(std::int32_t free, std::int32_t limit);

  // The sequence will not come back for its `tokens`.
  void Forsake(BlockTable* table, std::span<const TokenId> tokens);

  // The copies decided since the last call; they are under way until Settle().
  void TakeCopies(std::vector<BlockCopy>* before, std::vector<BlockCopy>* beside);
  bool has_copies() const { return !transfers_.empty(); }
  // All copies under way have ended, those into the blocks of `failed` in vain. What such a copy was to save
  // or to bring is lost where its source is gone or unreadable.
  void Settle(std::span<const BlockId> failed);
  // Frees what nobody can find any more because what came before it is gone; after failed copies, or when
  // much was dropped. Nothing else is looked at otherwise.
  void Prune();
  // Whether the last Settle() gave a block of the table contents that are not what they should be.
  bool IsBroken(const BlockTable& table) const;

  std::int32_t BlocksFor(std::int64_t tokens) const;
  std::int32_t block_tokens() const { return config_.block_tokens; }
  bool prefix_cache() const { return config_.prefix_cache; }

  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }
  const SwapSpace& swap_space() const { return swap_space_; }
  const SwapCounts& swap_counts() const { return swap_counts_; }
  bool swaps() const { return config_.swaps(); }
  std::int32_t misuses() const {
    return pool_.misuses() + swap_space_.host().misuses() + swap_space_.disk().misuses();
  }
  std::int32_t available() const { return pool_.free() + pool_.cached(); }  // free or reclaimable
  // Of these, what can be had without giving up or moving what somebody waits for.
  std::int32_t ready() const { return available() - pool_.wanted(); }

  // Walks everything; `tables` are all tables there are. For tests and soak runs.
  Status CheckInvariants(std::span<const BlockTable* const> tables) const;

 private:
  friend class BlockTable;

  // One copy between its decision and its end. `to` has one reference for it, and so has `from` unless it was
  // needed for something else before the copy ended.
  struct Transfer {
    BlockCopy copy;
    CopyTime time = CopyTime::kBeside;
    bool holds_source = true;
    bool wanted = false;
  };

  void Close(BlockTable* table);
  BlockId TakeBlock();
  // Moves what a device block held, which is being reused, to host memory before the step; or forgets it.
  void Rescue(BlockId block);
  bool StartOut(BlockId block, bool wanted);
  void StartIn(BlockId from, BlockId to, CopyTime time);
  void Start(const Transfer& transfer);
  void SettleOne(const Transfer& transfer, bool failed);
  void AddReference(BlockId block);
  void ReleaseBlock(BlockId block, Retention retention);
  bool IsDevice(BlockId block) const { return block < config_.blocks; }
  // Whether what a sequence computed can be found again at all.
  bool keeps_chains() const { return config_.prefix_cache || config_.swaps(); }
  void FindChain(BlockTable* table, std::span<const TokenId> tokens, std::vector<BlockId>* places) const;
  // Adds a block to the match's counts, or takes it off.
  void CountMatched(PrefixMatch* match, BlockId block, std::int32_t change) const;
  void ExtendHashes(BlockTable* table, std::span<const TokenId> tokens, std::size_t blocks) const;
  PrefixIndex::Link LinkBefore(const BlockTable& table, std::size_t block) const;
  std::span<const TokenId> BlockOf(std::span<const TokenId> tokens, std::size_t block) const;

  const KvConfig config_;
  BlockPool pool_;  // of the device
  SwapSpace swap_space_;
  PrefixIndex index_;
  std::vector<Transfer> transfers_;   // in the order in which they were decided
  std::size_t taken_ = 0;             // of these, those that TakeCopies() has given out
  std::vector<BlockId> arriving_in_;  // by block of a lower tier: the device block it is being copied to
  std::vector<char> loading_;         // by device block: contents arrive beside the step
  std::vector<char> broken_;          // by block: the last copy into it failed
  bool has_broken_ = false;
  std::uint64_t pruned_at_ = 0;  // SwapCounts::dropped at the last Prune()
  std::vector<BlockId> walk_;         // a buffer
  SwapCounts swap_counts_;
  std::uint64_t private_chains_ = 0;
};

// Counts by how much available() would grow if some tables were released, without releasing them. Blocks that
// the candidate for the space would take as its prefix do not count: freeing them gains nothing.
class ReleasePreview {
 public:
  explicit ReleasePreview(const KvManager& kv);

  void Start(const PrefixMatch& candidate);
  // Adds one more table to those released; the blocks that all of them together would make available.
  std::int32_t Add(const BlockTable& table);

 private:
  static constexpr std::int32_t kNotCounted = std::numeric_limits<std::int32_t>::min() / 2;

  const KvManager& kv_;
  std::vector<std::int32_t> released_;  // by block: references given back so far
  std::vector<BlockId> touched_;
  std::int32_t freed_ = 0;
};

}  // namespace skipjack
