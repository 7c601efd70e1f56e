// Waiting sequences by the time at which something about them must be looked at again. O(log n) to enter and
// to leave, O(1) to see that nothing is due.
#pragma once

#include <set>

#include "base/clock.h"
#include "sched/sequence.h"

namespace skipjack {

class ReviewQueue {
 public:
  struct Item {
    TimePoint due;
    Sequence* sequence;

    friend bool operator<(const Item& a, const Item& b) {
      return a.due != b.due ? a.due < b.due : a.sequence->ticket < b.sequence->ticket;
    }
  };

  void Insert(const Item& item) { items_.insert(item); }
  void Erase(const Item& item) { items_.erase(item); }
  bool IsDue(TimePoint now) const { return !items_.empty() && items_.begin()->due <= now; }
  Sequence* First() const { return items_.begin()->sequence; }
  std::size_t size() const { return items_.size(); }

 private:
  std::set<Item> items_;
};

}  // namespace skipjack
