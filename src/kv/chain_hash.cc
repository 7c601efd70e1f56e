#include "kv/chain_hash.h"

#include <bit>
#include <cstddef>

namespace skipjack {
namespace {

__extension__ using Uint128 = unsigned __int128;

// Odd constants with about half of their bits set; the fraction digits of pi.
constexpr std::uint64_t kLowMultiplier = 0x243f6a8885a308d3;
constexpr std::uint64_t kHighMultiplier = 0xa4093822299f31d1;
constexpr std::uint64_t kSeedLow = 0x13198a2e03707345;
constexpr std::uint64_t kSeedHigh = 0x082efa98ec4e6c89;

// The 128-bit product folded to 64 bits: every input bit reaches every output bit.
std::uint64_t Fold(std::uint64_t a, std::uint64_t b) {
  const Uint128 product = static_cast<Uint128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Two lanes that see each word differently, so that a pair of blocks that meet in one lane differ in the
// other.
ChainHash Absorb(const ChainHash& state, std::uint64_t word) {
  return {Fold(state.low ^ word, kLowMultiplier) + state.high,
          Fold(state.high ^ std::rotl(word, 31), kHighMultiplier) ^ std::rotl(state.low, 17)};
}

}  // namespace

ChainHash ChainSeed(std::string_view salt) {
  ChainHash state{kSeedLow, kSeedHigh};
  for (std::size_t at = 0; at < salt.size(); at += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = at; i < salt.size() && i < at + 8; ++i) {
      word = word << 8 | static_cast<unsigned char>(salt[i]);
    }
    state = Absorb(state, word);
  }
  return Absorb(state, salt.size());
}

ChainHash ChainExtend(const ChainHash& parent, std::span<const TokenId> block) {
  ChainHash state = parent;
  std::size_t i = 0;
  for (; i + 1 < block.size(); i += 2) {
    state = Absorb(state, static_cast<std::uint64_t>(static_cast<std::uint32_t>(block[i])) << 32 |
                              static_cast<std::uint32_t>(block[i + 1]));
  }
  if (i < block.size()) state = Absorb(state, static_cast<std::uint32_t>(block[i]));
  return Absorb(state, block.size());
}

}  // namespace skipjack
