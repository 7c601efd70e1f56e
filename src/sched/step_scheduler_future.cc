// Admission by the expected peak of what running sequences will hold (Past-Future, ASPLOS 2025).
//
// Each running sequence grows by a token a step until it ends, when it gives back all it has; how likely it
// is to be there after so many more tokens is told by the lengths of earlier answers like it. A newcomer is
// let in if what all of them are expected to hold fits into the pool at any time until the newcomer itself is
// expected to end: then it is not likely to be pushed out by the growth of others. Those behind it in the
// order do not stand in its way: they are the ones to be pushed out.
//
// The paper draws each length once and takes the peak of the sum. With heavy tails single draws, and even
// more so their means, stand for answers that hardly ever get so long; probabilities use all of the history.
#include <algorithm>
#include <array>
#include <utility>

#include "sched/step_scheduler.h"

namespace skipjack {
namespace {

// Tokens ahead at which the future is looked at.
constexpr std::array<std::int32_t, 11> kAhead = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};

}  // namespace

// What it holds alone: blocks that it shares with others stay when it ends.
double StepScheduler::OwnBlocks(std::int32_t tokens) const {
  return static_cast<double>(kv_.BlocksFor(std::max(tokens, 0)));
}

double StepScheduler::ExpectedBlocks(const Sequence& sequence, double own, std::int32_t ahead) const {
  if (sequence.generated() + ahead >= sequence.max_tokens) return 0;
  const double lives = learnt_->lengths.Survival(sequence.length_class, sequence.generated(), ahead);
  return lives * (own + static_cast<double>(ahead) / config_.block_tokens);
}

bool StepScheduler::FitsFuture(const Sequence& candidate) const {
  if (!config_.future_admission || rules_.reserves_max_tokens || running_.empty()) return true;
  if (!learnt_->lengths.informed()) return true;
  double shared = kv_.pool().used();
  for (const Sequence* sequence : running_) shared -= OwnBlocks(sequence->size() - sequence->cached_tokens);
  shared = std::max(shared, 0.0);
  const auto matched = static_cast<std::int32_t>(match_.blocks.size()) - match_.swapped - match_.unreferenced;
  const double own = OwnBlocks(candidate.size() - matched * config_.block_tokens);
  const double left =
      learnt_->lengths.ExpectedLength(candidate.length_class, candidate.generated()) - candidate.generated();
  const auto last = static_cast<std::int32_t>(std::max(left - 1, 1.0));
  for (const std::int32_t look : kAhead) {
    const std::int32_t ahead = std::min(look, last);
    double held = shared + ExpectedBlocks(candidate, own, ahead);
    for (const Sequence* sequence : running_) {
      if (!(sequence->rank < candidate.rank)) break;
      held += ExpectedBlocks(*sequence, OwnBlocks(sequence->size() - sequence->cached_tokens), ahead);
    }
    if (held > kv_.pool().total()) return false;
    if (ahead == last) break;
  }
  return true;
}

}  // namespace skipjack
