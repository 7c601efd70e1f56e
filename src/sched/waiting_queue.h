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
  void Insert(Sequence* sequence) { set_.insert(sequence); }
  void Erase(Sequence* sequence) { set_.erase(sequence); }
  Iterator Erase(Iterator at) { return {set_.erase(at.at_), &work_}; }

  Iterator begin() const { return {set_.begin(), &work_}; }
  Iterator end() const { return {set_.end(), &work_}; }
  std::size_t size() const { return set_.size(); }
  bool empty() const { return set_.empty(); }

  // Comparisons made and sequences passed over so far: what the queue has cost, whatever the machine.
  std::uint64_t work() const { return work_; }

 private:
  mutable std::uint64_t work_ = 0;
  Set set_{Earlier{&work_}};
};

}  // namespace skipjack
