// Bytes that many requests may hold together, so that each one's limit times their number is not what the
// process needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace skipjack {

// Thread-safe.
class ByteBudget {
 public:
  explicit ByteBudget(std::int64_t total) : total_(total), left_(total) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // All or nothing.
  bool TryTake(std::int64_t bytes) {
    std::int64_t left = left_.load(std::memory_order_relaxed);
    do {
      if (bytes > left) return false;
    } while (!left_.compare_exchange_weak(left, left - bytes, std::memory_order_relaxed));
    return true;
  }
  void GiveBack(std::int64_t bytes) { left_.fetch_add(bytes, std::memory_order_relaxed); }

  std::int64_t total() const { return total_; }
  std::int64_t left() const { return left_.load(std::memory_order_relaxed); }

 private:
  const std::int64_t total_;
  std::atomic<std::int64_t> left_;
};

// What one holder has of a budget; given back when it is released or goes, which may be after whoever made the
// budget has gone. Used by one thread at a time.
class ByteShare {
 public:
  explicit ByteShare(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  ByteShare(const ByteShare&) = delete;
  ByteShare& operator=(const ByteShare&) = delete;
  ~ByteShare() { Release(); }

  // False, with nothing taken, when the budget has not that much left.
  bool Grow(std::int64_t bytes) {
    if (!budget_->TryTake(bytes)) return false;
    held_ += bytes;
    return true;
  }
  void Release() {
    budget_->GiveBack(held_);
    held_ = 0;
  }

 private:
  const std::shared_ptr<ByteBudget> budget_;
  std::int64_t held_ = 0;
};

}  // namespace skipjack
