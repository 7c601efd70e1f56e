// How often steps may be interrupted, so that a stream of realtime requests cannot keep others from
// advancing.
//
// Two bounds hold together:
//   - After three dropped steps in a row the next one runs to its end. Steps of realtime sequences alone do
//   not end such
//     a row: others must have advanced.
//   - Of any time T at most max_part * (T + 30 s), and one step more, is lost to dropped steps.
//
// Not thread-safe: the step loop owns it.
#pragma once

#include "base/clock.h"

namespace skipjack {

class InterruptBudget {
 public:
  static constexpr int kMostInARow = 3;
  // The time ahead of which `max_part` may be spent: bursts of requests come after long rests.
  static constexpr Duration kAllowance = std::chrono::seconds(30);

  // `max_part` lies in [0, 1]; 0: no step is ever interrupted.
  explicit InterruptBudget(double max_part) : max_part_(max_part) {}

  // Whether a step that begins at `now` may be interrupted.
  bool Allows(TimePoint now) const;
  // A step that began `lost` ago was dropped.
  void NoteDropped(Duration lost, TimePoint now);
  // A step ended in which others than realtime sequences advanced.
  void NoteAdvanced() { in_a_row_ = 0; }

 private:
  double LostAt(TimePoint now) const;

  const double max_part_;
  int in_a_row_ = 0;
  double lost_seconds_ = 0;  // that time has not paid off yet, as of lost_at_
  TimePoint lost_at_{};
};

}  // namespace skipjack
