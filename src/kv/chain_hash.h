// The 128-bit name of a chain of full KV blocks: salt, then every token from position 0 to the block's last.
//
// Not cryptographic and not trusted: PrefixIndex compares tokens on every hit, so a collision costs a
// comparison and never gives wrong KV. Deterministic across runs and machines, so a plan replays the same
// everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/types.h"

namespace skipjack {

struct ChainHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  friend bool operator==(const ChainHash&, const ChainHash&) = default;
};

// The start of every chain of one salt.
ChainHash ChainSeed(std::string_view salt);

// The chain `parent` continued by one block of tokens.
ChainHash ChainExtend(const ChainHash& parent, std::span<const TokenId> block);

}  // namespace skipjack
