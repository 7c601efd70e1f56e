// Finds the KV block that already holds a given chain of tokens.
//
// Entries form a tree: an entry is one full block of tokens after a given predecessor, where the predecessor
// is another entry or, for a chain's first block, the salt. Lookups go by ChainHash and are then verified
// against the predecessor's identity and the tokens themselves; by induction over the chain a hit is exact,
// whatever the hash does. Two chains with equal hashes live side by side.
//
// Each block has at most one entry, so all storage is allocated at construction: Find, Insert and Erase are
// O(1) and allocate nothing. Which entry goes first when blocks run short is not decided here (see
// KvManager). Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kv/block_pool.h"
#include "kv/chain_hash.h"

namespace skipjack {

class PrefixIndex {
 public:
  // The identity of an entry or of a salt. Never given out twice, so an entry whose predecessor was erased
  // can not be mistaken for the successor of whatever takes the predecessor's block later.
  using Link = std::uint64_t;
  static constexpr Link kNoLink = 0;

  PrefixIndex(std::int32_t blocks, std::int32_t block_tokens);

  // The predecessor of all first blocks under `salt`. It stays the same as long as somebody holds it or an
  // entry continues it; every OpenRoot needs its CloseRoot.
  Link OpenRoot(std::string_view salt);
  void CloseRoot(Link root);

  // The block that holds `tokens` (one full block) after `parent`, or kNoBlock.
  BlockId Find(const ChainHash& hash, Link parent, std::span<const TokenId> tokens) const;

  // Makes `block` findable. The block has no entry yet and Find() with the same arguments gives kNoBlock.
  void Insert(BlockId block, const ChainHash& hash, Link parent, std::span<const TokenId> tokens);

  // The contents lie in `to` from now on, which has no entry. The entry's identity stays, and with it what
  // follows it.
  void Move(BlockId from, BlockId to);

  // Forgets the block's entry, if there is one. Entries after it can not be found any more.
  void Erase(BlockId block);

  // The blocks whose predecessor's entry is gone, and all that follow them. O(entries log entries).
  std::vector<BlockId> Orphans() const;

  // kNoLink when the block has no entry.
  Link LinkOf(BlockId block) const { return nodes_[Index(block)].link; }
  bool Contains(BlockId block) const { return LinkOf(block) != kNoLink; }

  std::int32_t size() const { return size_; }
  std::int32_t roots() const { return static_cast<std::int32_t>(roots_.size()); }

  // Walks everything; for tests and soak runs.
  Status CheckInvariants() const;

 private:
  struct Node {
    ChainHash hash;
    Link link = kNoLink;
    Link parent = kNoLink;
  };

  struct Root {
    std::string salt;
    std::int64_t users = 0;  // holders and first-block entries
  };

  static std::size_t Index(BlockId block) { return static_cast<std::size_t>(block); }
  std::size_t Home(const ChainHash& hash) const { return static_cast<std::size_t>(hash.low) & mask_; }
  std::span<const TokenId> TokensOf(BlockId block) const;

  const std::size_t block_tokens_;
  std::vector<Node> nodes_;      // by block
  std::vector<TokenId> tokens_;  // [blocks, block_tokens]
  std::vector<BlockId> slots_;   // open addressing with linear probing; at most half full
  std::size_t mask_ = 0;
  std::unordered_map<Link, Root> roots_;
  std::map<std::string, Link, std::less<>> root_by_salt_;
  Link next_link_ = 1;
  std::int32_t size_ = 0;
};

}  // namespace skipjack
