// The sequences that hold no KV, in the policy's order. O(log n) to enter and to leave, O(1) to see who is
// first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>

#include "sched/sequence.h"

namespace skipjack {

class WaitingQueue {
  struct Earlier {
    std::uint64_t* work;
    bool operator()(const Sequence* a, const Sequence* b) const {
      ++*work;
      return a->rank < b->rank;
    }
  };
  using Set = std::set<Sequence*, Earlier>;

 public:
  // Stays valid while others enter and leave.
  class Iterator {
   public:
    Sequence* operator*() const { return *at_; }
    Iterator& operator++() {
      ++*work_;
      ++at_;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.at_ == b.at_; }

   private:
    friend class WaitingQueue;
    Iterator(Set::iterator at, std::uint64_t* work) : at_(at), work_(work) {}
    Set::iterator at_;
    std::uint64_t* work_;
  };

  WaitingQueue() = default;
  WaitingQueue(const WaitingQueue&) = delete;
  WaitingQueue& operator=(const WaitingQueue&) = delete;

  // The rank of a sequence stays as it is while it is in the queue.
  void Insert(Sequence* sequence) {
    set_.insert(sequence);
    ++by_level_[sequence->band];
  }
  void Erase(Sequence* sequence) {
    set_.erase(sequence);
    --by_level_[sequence->band];
  }
  Iterator Erase(Iterator at) {
    --by_level_[(*at)->band];
    return {set_.erase(at.at_), &work_};
  }

  Iterator begin() const { return {set_.begin(), &work_}; }
  Iterator end() const { return {set_.end(), &work_}; }
  std::size_t size() const { return set_.size(); }
  bool empty() const { return set_.empty(); }
  const std::array<std::int32_t, kLevelBands>& by_level() const { return by_level_; }

  // Comparisons made and sequences passed over so far: what the queue has cost, whatever the machine.
  std::uint64_t work() const { return work_; }

 private:
  mutable std::uint64_t work_ = 0;
  Set set_{Earlier{&work_}};
  std::array<std::int32_t, kLevelBands> by_level_{};
};

}  // namespace skipjack
