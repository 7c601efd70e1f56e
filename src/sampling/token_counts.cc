#include "sampling/token_counts.h"

#include <utility>

namespace skipjack {
namespace {

constexpr std::size_t kFirstSize = 64;

// Fibonacci hashing: neighbours in the vocabulary spread over the table.
std::size_t Hash(TokenId token) {
  return static_cast<std::size_t>((static_cast<std::uint64_t>(token) * 0x9E3779B97F4A7C15ull) >> 32);
}

}  // namespace

TokenCounts::Entry& TokenCounts::Slot(TokenId token) {
  if (distinct_ * 2 >= slots_.size()) Grow();
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = Hash(token) & mask;; i = (i + 1) & mask) {
    if (slots_[i].token == token) return slots_[i];
    if (slots_[i].token == kNone) {
      slots_[i].token = token;
      ++distinct_;
      return slots_[i];
    }
  }
}

void TokenCounts::Grow() {
  std::vector<Entry> old = std::exchange(slots_, {});
  slots_.resize(old.empty() ? kFirstSize : old.size() * 2);
  const std::size_t mask = slots_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.token == kNone) continue;
    std::size_t i = Hash(entry.token) & mask;
    while (slots_[i].token != kNone) i = (i + 1) & mask;
    slots_[i] = entry;
  }
}

}  // namespace skipjack
