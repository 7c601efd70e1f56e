// Owns the KV blocks of one model replica and decides which contents stay findable.
//
// A block's way: Reserve() gives it to one table, a step fills it, Publish() makes it findable, other tables
// take it by Match() and Admit(), the last Release() leaves it cached until somebody else needs the space.
// What was not published is free again at once.
//
// Eviction takes the block released longest ago, of those that nobody waits for if there are any. A table
// gives its blocks up from the last to the first, and whoever holds a block holds all before it, so a chain
// is evicted from its leaves; the part that is left stays findable from its root.
//
// Allocates nothing in Reserve, Publish and Release once a table has the capacity. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kv/block_pool.h"
#include "kv/block_table.h"
#include "kv/prefix_index.h"

namespace skipjack {

struct KvConfig {
  std::int32_t blocks = 0;
  std::int32_t block_tokens = 16;
  bool prefix_cache = true;
};

// Leading blocks of a prompt that are already in the pool. Valid until blocks are next reserved or evicted.
struct PrefixMatch {
  std::vector<BlockId> blocks;
  std::int32_t unreferenced = 0;  // of these, cached ones: taking them lessens available()
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

  // Takes the matched blocks into an empty table, then reserves up to `tokens` tokens. All or nothing.
  bool Admit(BlockTable* table, const PrefixMatch& match, std::int32_t tokens);

  // Makes the table cover `tokens` tokens, evicting cached blocks if it must. All or nothing.
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

  std::int32_t BlocksFor(std::int64_t tokens) const;
  std::int32_t block_tokens() const { return config_.block_tokens; }
  bool prefix_cache() const { return config_.prefix_cache; }

  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }
  std::int32_t available() const { return pool_.free() + pool_.cached(); }  // free or reclaimable

  // Walks everything; `tables` are all tables there are. For tests and soak runs.
  Status CheckInvariants(std::span<const BlockTable* const> tables) const;

 private:
  friend class BlockTable;

  void Close(BlockTable* table);
  BlockId TakeBlock();
  void ExtendHashes(BlockTable* table, std::span<const TokenId> tokens, std::size_t blocks) const;
  PrefixIndex::Link LinkBefore(const BlockTable& table, std::size_t block) const;
  std::span<const TokenId> BlockOf(std::span<const TokenId> tokens, std::size_t block) const;

  const KvConfig config_;
  BlockPool pool_;
  PrefixIndex index_;
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
