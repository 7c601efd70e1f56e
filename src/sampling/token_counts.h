// How often each token occurred, for the penalties: a small hash table that grows with the number of distinct
// tokens and is kept up to date token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace skipjack {

class TokenCounts {
 public:
  struct Entry {
    TokenId token = kNone;
    std::int32_t generated = 0;  // occurrences in the output; 0 for a token of the prompt alone
  };
  static constexpr TokenId kNone = -1;

  // A token of the prompt.
  void AddPrompt(TokenId token) { Slot(token); }
  // A token of the output.
  void AddGenerated(TokenId token) { ++Slot(token).generated; }

  std::size_t distinct() const { return distinct_; }
  // The table's slots; empty ones have token == kNone. The order is of no meaning.
  std::span<const Entry> slots() const { return slots_; }

 private:
  Entry& Slot(TokenId token);
  void Grow();

  std::vector<Entry> slots_;  // a power of two, at most half full; open addressing
  std::size_t distinct_ = 0;
};

}  // namespace skipjack
