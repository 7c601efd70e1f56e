#include "sched/mlfq_policy.h"

#include <algorithm>
#include <bit>

namespace skipjack {
namespace {

// By then a quantum is a million iterations.
constexpr std::int64_t kMostLevel = 20;

}  // namespace

PolicyKey FifoKey(std::int64_t level, const SequenceSnapshot& sequence) {
  if (sequence.key.has_value() && sequence.key->level == level) return *sequence.key;
  return {.level = level, .key = sequence.observed_at.time_since_epoch().count()};
}

std::int64_t MlfqPolicy::LevelOf(const SequenceSnapshot& sequence) const {
  if (sequence.promoted) return 0;
  const std::int64_t quantum = Quantum().count();
  // The first i with q 2^i >= the prompt's time.
  std::int64_t join = 0;
  if (sequence.expected_prefill > Duration::zero()) {
    const auto quanta = static_cast<std::uint64_t>((sequence.expected_prefill.count() - 1) / quantum);
    join = std::min<std::int64_t>(std::bit_width(quanta), kMostLevel);
  }
  // Queues join..i grant q (2^(i+1) - 2^join) together: the first i that grants more than was used.
  const std::int64_t used = std::max<std::int64_t>(sequence.attained.count(), 0) / quantum;
  const auto sum = static_cast<std::uint64_t>(used + (std::int64_t{1} << join));
  return std::min<std::int64_t>(std::bit_width(sum) - 1, kMostLevel);
}

PolicyKey MlfqPolicy::KeyOf(const SequenceSnapshot& sequence) const {
  return FifoKey(LevelOf(sequence), sequence);
}

bool MlfqPolicy::MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const {
  return waiting.key->level < running.key->level;
}

std::optional<Promotion> MlfqPolicy::PromotionOf(const SequenceSnapshot& sequence) const {
  if (settings_.starvation_bound <= Duration::zero() || sequence.key->level == 0) return std::nullopt;
  return Promotion{.after = settings_.starvation_bound,
                   .service = Quantum() * (std::int64_t{1} << LevelOf(sequence))};
}

Duration MlfqPolicy::ServiceBetween(std::int64_t ahead, std::int64_t behind) const {
  const std::int64_t quanta = (std::int64_t{1} << behind) - (std::int64_t{1} << ahead);
  return Quantum() * std::max<std::int64_t>(quanta, 0);
}

}  // namespace skipjack
