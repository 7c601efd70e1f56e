// Admission by the expected peak of what running sequences will hold (Past-Future, arXiv:2507.10150; ASPLOS
// 2025).
//
// Each running sequence grows by a token a step until it ends, when it gives back all it has; when it ends is
// told by the lengths of earlier answers like it. The peak lies right before one of them ends. A newcomer is
// let in if the peak with it fits into the pool: then nobody is likely to be pushed out by the growth of
// others.
#include <algorithm>
#include <tuple>
#include <utility>

#include "sched/step_scheduler.h"

namespace skipjack {

StepScheduler::Expected StepScheduler::Expectation(const Sequence& sequence, std::int32_t own_tokens) const {
  const double length = std::min<double>(
      learnt_->lengths.ExpectedLength(sequence.length_class, sequence.generated()), sequence.max_tokens);
  return {.priority = sequence.priority,
          .late = sequence.late,
          .remaining = std::max(length - sequence.generated(), 1.0),
          .held = static_cast<double>(kv_.BlocksFor(own_tokens))};
}

bool StepScheduler::FitsFuture(const Sequence& candidate) {
  if (!config_.future_admission || rules_.reserves_max_tokens || running_.empty()) return true;
  if (!learnt_->lengths.informed()) return true;
  const auto longest_first = [](const Expected& a, const Expected& b) { return a.remaining > b.remaining; };
  if (std::exchange(future_is_stale_, false)) {
    future_.clear();
    for (const Sequence* sequence : running_) {
      future_.push_back(Expectation(*sequence, sequence->size() - sequence->cached_tokens));
    }
    std::ranges::sort(future_, longest_first);
  }
  double shared = kv_.pool().used();  // stays when somebody ends: others hold it too
  for (const Expected& expected : future_) shared -= expected.held;
  const auto matched = static_cast<std::int32_t>(match_.blocks.size()) - match_.swapped - match_.unreferenced;
  const Expected newcomer = Expectation(candidate, candidate.size() - matched * config_.block_tokens);

  // Before the k-th longest ends, the k longest are there and each has grown as much.
  double held = std::max(shared, 0.0);
  double count = 0;
  double peak = 0;
  const auto add = [&](const Expected& expected) {
    held += expected.held;
    count += 1;
    peak = std::max(peak, held + count * expected.remaining / config_.block_tokens);
  };
  bool added = false;
  for (const Expected& expected : future_) {
    if (!added && longest_first(newcomer, expected)) {
      add(newcomer);
      added = true;
    }
    if (std::tie(expected.priority, expected.late) <= std::tie(newcomer.priority, newcomer.late))
      add(expected);
  }
  if (!added) add(newcomer);
  return peak <= kv_.pool().total();
}

}  // namespace skipjack
