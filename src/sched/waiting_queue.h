// The sequences that hold no KV, in the policy's order. O(log n) to enter and to leave, O(1) to see who is
// first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

#include "sched/sequence.h"

namespace skipjack {

class WaitingQueue {
  struct Earlier {
    std::uint64_t* comparisons;
    bool operator()(const Sequence* a, const Sequence* b) const {
      ++*comparisons;
      return a->rank < b->rank;
    }
  };
  using Set = std::set<Sequence*, Earlier>;

 public:
  using Iterator = Set::iterator;

  WaitingQueue() = default;
  WaitingQueue(const WaitingQueue&) = delete;
  WaitingQueue& operator=(const WaitingQueue&) = delete;

  // The rank of a sequence stays as it is while it is in the queue.
  void Insert(Sequence* sequence) { set_.insert(sequence); }
  void Erase(Sequence* sequence) { set_.erase(sequence); }
  Iterator Erase(Iterator at) { return set_.erase(at); }

  Iterator begin() const { return set_.begin(); }
  Iterator end() const { return set_.end(); }
  std::size_t size() const { return set_.size(); }
  bool empty() const { return set_.empty(); }

  // Comparisons made so far: what the queue cost, independent of the machine.
  std::uint64_t comparisons() const { return comparisons_; }

 private:
  std::uint64_t comparisons_ = 0;
  Set set_{Earlier{&comparisons_}};
};

}  // namespace skipjack
