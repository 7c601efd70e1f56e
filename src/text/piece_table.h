// The bytes of every token, and the way back from bytes to the token they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace skipjack {

// Strings one after the other; string i is what was added i-th.
class StringArena {
 public:
  void Reserve(std::size_t strings, std::size_t bytes) {
    ends_.reserve(strings + 1);
    bytes_.reserve(bytes);
  }
  void Add(std::string_view s) {
    bytes_.append(s);
    ends_.push_back(bytes_.size());
  }
  std::size_t size() const { return ends_.size() - 1; }
  std::string_view operator[](std::size_t i) const {
    return std::string_view(bytes_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_{0};
};

// An open-addressing hash table of token ids keyed by their bytes, at most half full. The bytes stay in the
// arena, which the caller passes in and keeps unchanged.
class PieceTable {
 public:
  explicit PieceTable(std::size_t capacity);

  // `arena[id]` must not be in the table yet.
  void Insert(const StringArena& arena, TokenId id);
  // -1 when no token has these bytes.
  TokenId Find(const StringArena& arena, std::string_view bytes) const {
    const std::uint64_t hash = Hash(bytes);
    const std::uint32_t tag = static_cast<std::uint32_t>(hash);
    for (std::size_t i = hash >> shift_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.id < 0) return -1;
      if (slot.tag == tag && arena[static_cast<std::size_t>(slot.id)] == bytes) return slot.id;
    }
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    TokenId id = -1;
  };

  static std::uint64_t Hash(std::string_view bytes);

  std::vector<Slot> slots_;
  std::size_t mask_;
  int shift_;
};

}  // namespace skipjack
