#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

namespace skipjack {

PrefixIndex::PrefixIndex(std::int32_t blocks, std::int32_t block_tokens)
    : block_tokens_(static_cast<std::size_t>(block_tokens)),
      nodes_(Index(blocks)),
      tokens_(nodes_.size() * block_tokens_),
      slots_(std::bit_ceil(std::max<std::size_t>(nodes_.size() * 2, 2)), kNoBlock),
      mask_(slots_.size() - 1) {}

PrefixIndex::Link PrefixIndex::OpenRoot(std::string_view salt) {
  auto found = root_by_salt_.find(salt);
  if (found == root_by_salt_.end()) {
    found = root_by_salt_.emplace(std::string(salt), next_link_++).first;
    roots_[found->second].salt = found->first;
  }
  ++roots_[found->second].users;
  return found->second;
}

void PrefixIndex::CloseRoot(Link root) {
  const auto found = roots_.find(root);
  if (found == roots_.end() || --found->second.users > 0) return;
  root_by_salt_.erase(found->second.salt);
  roots_.erase(found);
}

std::span<const TokenId> PrefixIndex::TokensOf(BlockId block) const {
  return std::span(tokens_).subspan(Index(block) * block_tokens_, block_tokens_);
}

BlockId PrefixIndex::Find(const ChainHash& hash, Link parent, std::span<const TokenId> tokens) const {
  for (std::size_t slot = Home(hash); slots_[slot] != kNoBlock; slot = (slot + 1) & mask_) {
    const BlockId block = slots_[slot];
    const Node& node = nodes_[Index(block)];
    if (node.hash == hash && node.parent == parent && std::ranges::equal(TokensOf(block), tokens))
      return block;
  }
  return kNoBlock;
}

void PrefixIndex::Insert(BlockId block, const ChainHash& hash, Link parent, std::span<const TokenId> tokens) {
  nodes_[Index(block)] = Node{hash, next_link_++, parent};
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(Index(block) * block_tokens_));
  std::size_t slot = Home(hash);
  while (slots_[slot] != kNoBlock) slot = (slot + 1) & mask_;
  slots_[slot] = block;
  ++size_;
  if (const auto root = roots_.find(parent); root != roots_.end()) ++root->second.users;
}

void PrefixIndex::Move(BlockId from, BlockId to) {
  std::size_t slot = Home(nodes_[Index(from)].hash);
  while (slots_[slot] != from) slot = (slot + 1) & mask_;
  slots_[slot] = to;
  nodes_[Index(to)] = std::exchange(nodes_[Index(from)], Node{});
  std::ranges::copy(TokensOf(from), tokens_.begin() + static_cast<std::ptrdiff_t>(Index(to) * block_tokens_));
}

void PrefixIndex::Erase(BlockId block) {
  if (!Contains(block)) return;
  Node& node = nodes_[Index(block)];
  std::size_t hole = Home(node.hash);
  while (slots_[hole] != block) hole = (hole + 1) & mask_;
  CloseRoot(node.parent);
  node = Node{};
  --size_;

  // Close the gap: entries further along move back unless that would put them before their home slot.
  for (std::size_t slot = (hole + 1) & mask_; slots_[slot] != kNoBlock; slot = (slot + 1) & mask_) {
    const std::size_t home = Home(nodes_[Index(slots_[slot])].hash);
    if (((slot - home) & mask_) < ((slot - hole) & mask_)) continue;
    slots_[hole] = slots_[slot];
    hole = slot;
  }
  slots_[hole] = kNoBlock;
}

std::vector<BlockId> PrefixIndex::Orphans() const {
  // An entry is made after what it follows, and links are given out in that order.
  std::vector<BlockId> entries;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].link != kNoLink) entries.push_back(static_cast<BlockId>(i));
  }
  std::ranges::sort(entries, {}, [this](BlockId block) { return LinkOf(block); });
  std::unordered_set<Link> alive;
  std::vector<BlockId> orphans;
  for (const BlockId block : entries) {
    const Node& node = nodes_[Index(block)];
    if (alive.contains(node.parent) || roots_.contains(node.parent)) {
      alive.insert(node.link);
    } else {
      orphans.push_back(block);
    }
  }
  return orphans;
}

Status PrefixIndex::CheckInvariants() const {
  std::int32_t entries = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].link == kNoLink) continue;
    ++entries;
    const auto block = static_cast<BlockId>(i);
    if (Find(nodes_[i].hash, nodes_[i].parent, TokensOf(block)) != block) {
      return Status::Internal("prefix index: the entry of block " + std::to_string(i) + " is not found");
    }
  }
  const auto filled = std::ranges::count_if(slots_, [](BlockId block) { return block != kNoBlock; });
  if (entries != size_ || filled != size_) {
    return Status::Internal("prefix index: " + std::to_string(entries) + " entries in " +
                            std::to_string(filled) + " slots, counted as " + std::to_string(size_));
  }
  return Status::Ok();
}

}  // namespace skipjack
