#include "sched/index_policy.h"

#include <algorithm>
#include <cmath>

namespace skipjack {
namespace {

constexpr std::int64_t kPerOctave = 4;
// Ahead of every level there is: those who were promoted.
constexpr std::int64_t kFront = -1;

}  // namespace

IndexPolicy::IndexPolicy(const PolicySettings& settings, const Learnt& learnt)
    : settings_(settings),
      learnt_(learnt),
      mlfq_(settings, learnt.latency),
      margin_(static_cast<std::int64_t>(
          std::ceil(static_cast<double>(kPerOctave) * std::log2(1 + std::max(settings.hysteresis, 0.0))))) {}

double IndexPolicy::RankOf(const SequenceSnapshot& sequence) const {
  const LengthModel& lengths = learnt_.lengths;
  // It ends at max_tokens for certain.
  const double most = sequence.max_tokens - sequence.generated_tokens;
  // The prompt is work that must be done first. Work done twice is not counted: who was pushed out keeps its
  // place.
  const double prompt = sequence.generated_tokens > 0 || sequence.computed_tokens >= sequence.prompt_tokens
                            ? 0
                            : ToSeconds(sequence.expected_prefill) / ToSeconds(learnt_.latency.iteration());
  const double rank =
      prompt <= 0 ? std::min(lengths.Rank(sequence.length_class, sequence.generated_tokens), most)
                  : std::min(lengths.RankAfter(sequence.length_class, sequence.generated_tokens, prompt),
                             most + prompt);
  return rank * SeatsTaken(sequence.prompt_tokens + sequence.generated_tokens + rank / 2);
}

double IndexPolicy::SeatsTaken(double context) const {
  if (learnt_.kv_tokens <= 0) return 1;
  return std::max(1.0, context * learnt_.seats / static_cast<double>(learnt_.kv_tokens));
}

PolicyKey IndexPolicy::KeyOf(const SequenceSnapshot& sequence) const {
  if (!learnt_.lengths.informed()) return FifoKey(kPerOctave * mlfq_.LevelOf(sequence), sequence);
  if (sequence.promoted) return FifoKey(kFront, sequence);
  const double octaves = std::log2(std::max(RankOf(sequence), 1.0));
  return FifoKey(static_cast<std::int64_t>(std::floor(static_cast<double>(kPerOctave) * octaves)), sequence);
}

bool IndexPolicy::MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const {
  if (!learnt_.lengths.informed()) return mlfq_.MayPreempt(waiting, running);
  if (waiting.key->level + margin_ >= running.key->level) return false;
  const double expected = learnt_.lengths.ExpectedLength(running.length_class, running.generated_tokens);
  return running.generated_tokens < settings_.protected_part * expected;
}

std::int64_t IndexPolicy::BandOf(std::int64_t level) const {
  return level / kPerOctave;
}

std::optional<Promotion> IndexPolicy::PromotionOf(const SequenceSnapshot& sequence) const {
  if (sequence.promoted) return std::nullopt;
  if (!learnt_.lengths.informed()) return mlfq_.PromotionOf(sequence);
  if (settings_.ageing_bound <= Duration::zero()) return std::nullopt;
  return Promotion{.after = settings_.ageing_bound};
}

Duration IndexPolicy::ServiceBetween(std::int64_t ahead, std::int64_t behind) const {
  if (!learnt_.lengths.informed()) return mlfq_.ServiceBetween(ahead / kPerOctave, behind / kPerOctave);
  if (ahead >= behind) return Duration::zero();
  const double iterations = std::exp2(static_cast<double>(std::max<std::int64_t>(ahead, 0)) / kPerOctave);
  return FromSeconds(iterations * ToSeconds(learnt_.latency.iteration()));
}

}  // namespace skipjack
