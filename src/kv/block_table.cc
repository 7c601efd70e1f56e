#include "kv/block_table.h"

#include <utility>

#include "kv/kv_manager.h"

namespace skipjack {

BlockTable::~BlockTable() {
  if (manager_ != nullptr) manager_->Close(this);
}

void BlockTable::ReserveCapacity(std::int32_t blocks) {
  blocks_.reserve(static_cast<std::size_t>(blocks));
  hashes_.reserve(static_cast<std::size_t>(blocks));
}

void BlockTable::Swap(BlockTable& other) noexcept {
  std::swap(manager_, other.manager_);
  std::swap(root_, other.root_);
  std::swap(seed_, other.seed_);
  std::swap(blocks_, other.blocks_);
  std::swap(hashes_, other.hashes_);
  std::swap(published_, other.published_);
  std::swap(epoch_, other.epoch_);
}

}  // namespace skipjack
