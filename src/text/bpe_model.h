// Byte-pair encoding: a piece of text starts as one token per byte, and the pair with the best merge is
// joined until none is left (Sennrich, Haddow, Birch: Neural machine translation of rare words with subword
// units, 2016).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "text/piece_table.h"

namespace skipjack {

// Work memory of one thread's encoding, kept from piece to piece: about 40 bytes per byte of the longest
// piece.
class BpeWorkspace {
 public:
  // How much was done so far; tests see from it that the work grows with the text and no faster.
  struct Counters {
    std::uint64_t pair_lookups = 0;
    std::uint64_t heap_pops = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  friend class BpeModel;

  // A token within the piece, linked to its neighbours; joined into its left neighbour when id is negative.
  struct Symbol {
    TokenId id;
    std::uint32_t previous, next;
  };
  // A pair that has a merge; out of date when its position no longer holds these two tokens.
  struct Candidate {
    std::uint64_t order;  // rank of the merge, then position: the smallest is joined first
    TokenId left, right;
  };

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
  Counters counters_;
};

// Immutable; any number of threads.
class BpeModel {
 public:
  struct Merge {
    TokenId left, right, result;
  };
  static constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 31;

  // `bytes` (kept by reference) has the bytes of every token, `byte_tokens` the token of each byte or -1,
  // `merges` are the best first; of two merges of one pair the first counts.
  BpeModel(const StringArena& bytes, const std::array<TokenId, 256>& byte_tokens,
           std::span<const Merge> merges);

  // Pieces that equal one of `tokens` are from now on that token at once. With `only_reachable` a token is
  // left out when merges do not make it of its bytes, so that the result of Encode does not change.
  void IndexWholePieces(std::span<const TokenId> tokens, bool only_reachable);

  // Appends the tokens of `piece` (at most kMaxPieceBytes) in O(n log n). A byte without a token is left out,
  // as the reference tokenizers do.
  void Encode(std::string_view piece, BpeWorkspace& work, std::vector<TokenId>& out) const {
    const TokenId whole = whole_pieces_.Find(bytes_, piece);
    if (whole >= 0) {
      out.push_back(whole);
    } else {
      Merged(piece, work, out);
    }
  }

 private:
  static constexpr std::uint32_t kEnd = UINT32_MAX;
  static constexpr std::uint32_t kNoRank = UINT32_MAX;

  // An open-addressing hash table from a pair of tokens to the rank of its merge, at most half full.
  struct PairSlot {
    std::uint64_t pair = UINT64_MAX;
    std::uint32_t rank = kNoRank;
  };

  void Merged(std::string_view piece, BpeWorkspace& work, std::vector<TokenId>& out) const;
  void Join(BpeWorkspace& work) const;
  std::uint32_t FindRank(TokenId left, TokenId right) const;
  void PushPair(std::uint32_t position, BpeWorkspace& work) const;
  bool AppendPair(std::uint32_t position, BpeWorkspace& work) const;
  std::size_t SlotOf(std::uint64_t pair) const;

  const StringArena& bytes_;
  std::array<TokenId, 256> byte_tokens_;
  std::vector<PairSlot> pairs_;
  int pair_shift_;
  std::vector<TokenId> results_;  // by rank
  PieceTable whole_pieces_;
};

}  // namespace skipjack
