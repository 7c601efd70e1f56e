#include "text/bpe_model.h"

#include <algorithm>
#include <bit>

namespace skipjack {
namespace {

std::uint64_t PairOf(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// std::push_heap and its kin keep the largest in front.
constexpr auto kIsWorse = [](const auto& a, const auto& b) { return a.order > b.order; };

}  // namespace

BpeModel::BpeModel(const StringArena& bytes, const std::array<TokenId, 256>& byte_tokens,
                   std::span<const Merge> merges)
    : bytes_(bytes),
      byte_tokens_(byte_tokens),
      pairs_(std::bit_ceil(merges.size() * 2 + 2)),
      pair_shift_(64 - std::countr_zero(pairs_.size())),
      whole_pieces_(0) {
  results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    const std::uint64_t pair = PairOf(merge.left, merge.right);
    PairSlot& slot = pairs_[SlotOf(pair)];
    if (slot.rank == kNoRank) slot = {pair, static_cast<std::uint32_t>(results_.size())};
    results_.push_back(merge.result);
  }
}

void BpeModel::IndexWholePieces(std::span<const TokenId> tokens, bool only_reachable) {
  PieceTable table(tokens.size());
  BpeWorkspace work;
  std::vector<TokenId> ids;
  for (const TokenId token : tokens) {
    if (only_reachable) {
      ids.clear();
      Merged(bytes_[static_cast<std::size_t>(token)], work, ids);
      if (ids.size() != 1 || ids.front() != token) continue;
    }
    table.Insert(bytes_, token);
  }
  whole_pieces_ = std::move(table);
}

// The slot that holds `pair`, or the empty one where it belongs.
std::size_t BpeModel::SlotOf(std::uint64_t pair) const {
  const std::size_t mask = pairs_.size() - 1;
  std::size_t i = (pair * 0x9E3779B97F4A7C15ull) >> pair_shift_;
  while (pairs_[i].rank != kNoRank && pairs_[i].pair != pair) i = (i + 1) & mask;
  return i;
}

std::uint32_t BpeModel::FindRank(TokenId left, TokenId right) const {
  return pairs_[SlotOf(PairOf(left, right))].rank;
}

// Puts the pair that begins at `position` at the end of the candidates if it has a merge.
bool BpeModel::AppendPair(std::uint32_t position, BpeWorkspace& work) const {
  const auto& symbol = work.symbols_[position];
  if (symbol.next == kEnd) return false;
  const TokenId right = work.symbols_[symbol.next].id;
  ++work.counters_.pair_lookups;
  const std::uint32_t rank = FindRank(symbol.id, right);
  if (rank == kNoRank) return false;
  work.heap_.push_back({static_cast<std::uint64_t>(rank) << 32 | position, symbol.id, right});
  return true;
}

void BpeModel::PushPair(std::uint32_t position, BpeWorkspace& work) const {
  if (AppendPair(position, work)) std::push_heap(work.heap_.begin(), work.heap_.end(), kIsWorse);
}

void BpeModel::Join(BpeWorkspace& work) const {
  auto& heap = work.heap_;
  auto& symbols = work.symbols_;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), kIsWorse);
    const auto best = heap.back();
    heap.pop_back();
    ++work.counters_.heap_pops;
    const auto position = static_cast<std::uint32_t>(best.order);
    auto& left = symbols[position];
    if (left.id != best.left || left.next == kEnd || symbols[left.next].id != best.right) continue;

    auto& right = symbols[left.next];
    left.id = results_[best.order >> 32];
    left.next = right.next;
    right.id = -1;
    if (left.next != kEnd) symbols[left.next].previous = position;
    if (left.previous != kEnd) PushPair(left.previous, work);
    PushPair(position, work);
  }
}

void BpeModel::Merged(std::string_view piece, BpeWorkspace& work, std::vector<TokenId>& out) const {
  auto& symbols = work.symbols_;
  symbols.clear();
  work.heap_.clear();
  for (const char byte : piece) {
    const TokenId id = byte_tokens_[static_cast<unsigned char>(byte)];
    if (id < 0) continue;
    const auto position = static_cast<std::uint32_t>(symbols.size());
    symbols.push_back({id, position - 1, position + 1});
  }
  if (symbols.empty()) return;
  symbols.front().previous = kEnd;
  symbols.back().next = kEnd;

  for (std::uint32_t position = 0; position + 1 < symbols.size(); ++position) AppendPair(position, work);
  std::make_heap(work.heap_.begin(), work.heap_.end(), kIsWorse);
  Join(work);
  for (std::uint32_t i = 0; i != kEnd; i = symbols[i].next) out.push_back(symbols[i].id);
}

}  // namespace skipjack
