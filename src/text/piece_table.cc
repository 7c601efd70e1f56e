#include "text/piece_table.h"

#include <bit>
#include <cstring>

namespace skipjack {
namespace {

__extension__ using Wide = unsigned __int128;

// Multiply and fold, the step of Wang Yi's wyhash.
std::uint64_t Mix(std::uint64_t a, std::uint64_t b) {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

template <class Word>
std::uint64_t Load(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

constexpr std::uint64_t kFirst = 0xA0761D6478BD642Full;
constexpr std::uint64_t kSecond = 0xE7037ED1A0B428DBull;

}  // namespace

PieceTable::PieceTable(std::size_t capacity) {
  const std::size_t slots = std::bit_ceil(capacity * 2 + 2);
  slots_.resize(slots);
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
}

void PieceTable::Insert(const StringArena& arena, TokenId id) {
  const std::uint64_t hash = Hash(arena[static_cast<std::size_t>(id)]);
  std::size_t i = hash >> shift_;
  while (slots_[i].id >= 0) i = (i + 1) & mask_;
  slots_[i] = {static_cast<std::uint32_t>(hash), id};
}

// Pieces are mostly shorter than 16 bytes, which two overlapping loads cover.
std::uint64_t PieceTable::Hash(std::string_view bytes) {
  const char* data = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t seed = kFirst ^ left;
  for (; left > 16; left -= 16, data += 16) {
    seed = Mix(Load<std::uint64_t>(data) ^ kFirst, Load<std::uint64_t>(data + 8) ^ seed);
  }
  std::uint64_t low = 0, high = 0;
  if (left >= 8) {
    low = Load<std::uint64_t>(data);
    high = Load<std::uint64_t>(data + left - 8);
  } else if (left >= 4) {
    low = Load<std::uint32_t>(data);
    high = Load<std::uint32_t>(data + left - 4);
  } else if (left > 0) {
    low = Load<std::uint8_t>(data) | Load<std::uint8_t>(data + left / 2) << 8 |
          Load<std::uint8_t>(data + left - 1) << 16;
  }
  return Mix(kSecond ^ low, high ^ seed);
}

}  // namespace skipjack
