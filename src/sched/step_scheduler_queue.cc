// Places in the queue: ranks, and who must be looked at again and when.
#include <algorithm>
#include <utility>

#include "sched/step_scheduler.h"

namespace skipjack {
namespace {

// Bounds what one plan spends on a crowd that has waited equally long; the rest follows in the next one.
constexpr int kMostReviews = 64;

// Of the seats and of the blocks, what promoted sequences may hold.
constexpr std::int32_t kPromotedDivisor = 5;

}  // namespace

Rank StepScheduler::RankOf(const Sequence& sequence, TimePoint now) const {
  return {.priority = sequence.priority,
          .late = sequence.late,
          .share = sequence.share,
          .policy = policy_->KeyOf(sequence.Snapshot(now)),
          .ticket = sequence.ticket};
}

// Whether its place has changed.
bool StepScheduler::Rerank(Sequence* sequence, TimePoint now) {
  const Rank rank = RankOf(*sequence, now);
  const std::int64_t level = rank.policy.level;
  if (!sequence->ranked || level != sequence->rank.policy.level) {
    if (sequence->ranked && level > sequence->rank.policy.level) ++demotions_;
    sequence->level_since = now;
    sequence->band =
        static_cast<std::uint8_t>(std::clamp<std::int64_t>(policy_->BandOf(level), 0, kLevelBands - 1));
  }
  if (std::exchange(sequence->ranked, true)) CountLevel(*sequence, -1);
  const bool changed = std::exchange(sequence->rank, rank) != rank;
  CountLevel(*sequence, 1);
  return changed;
}

// The last moment at which its first token could still come in time; later tokens are not certain to be
// needed.
std::optional<TimePoint> StepScheduler::LateAt(const Sequence& sequence) const {
  if (!sequence.deadline.has_value()) return std::nullopt;
  if (sequence.generated() > 0) return *sequence.deadline;
  const std::int32_t left = sequence.prompt_tokens - std::max(sequence.computed, sequence.cached_tokens);
  const double share = static_cast<double>(left) / sequence.prompt_tokens;
  return *sequence.deadline - FromSeconds(share * ToSeconds(sequence.expected_prefill));
}

bool StepScheduler::IsLate(const Sequence& sequence, TimePoint now) const {
  const std::optional<TimePoint> late_at = LateAt(sequence);
  return late_at.has_value() && *late_at < now;
}

void StepScheduler::EnterQueue(Sequence* sequence, TimePoint now) {
  waiting_.Insert(sequence);
  if (sequence->resident > 0) resident_.insert(sequence);
  if (sequence->swapped > 0) swapped_.insert(sequence);
  if (const std::optional<Promotion> promotion = policy_->PromotionOf(sequence->Snapshot(now))) {
    sequence->promote_at = sequence->last_served + promotion->after;
    starving_.Insert({*sequence->promote_at, sequence});
  }
  if (sequence->late) return;
  sequence->late_at = LateAt(*sequence);
  if (sequence->late_at.has_value()) expiring_.Insert({*sequence->late_at, sequence});
}

void StepScheduler::LeaveQueue(Sequence* sequence) {
  waiting_.Erase(sequence);
  LeaveReviews(sequence);
}

// Its rank is still the one it waited with.
void StepScheduler::LeaveReviews(Sequence* sequence) {
  if (sequence->resident > 0) resident_.erase(sequence);
  if (sequence->swapped > 0) swapped_.erase(sequence);
  if (sequence->promote_at.has_value()) starving_.Erase({*sequence->promote_at, sequence});
  if (sequence->late_at.has_value()) expiring_.Erase({*sequence->late_at, sequence});
  sequence->promote_at.reset();
  sequence->late_at.reset();
}

void StepScheduler::ReviewWaiting(TimePoint now) {
  int reviews = 0;
  while (expiring_.IsDue(now) && reviews++ < kMostReviews) {
    Sequence* sequence = expiring_.First();
    LeaveQueue(sequence);
    sequence->late = true;
    Rerank(sequence, now);
    EnterQueue(sequence, now);
  }
  while (starving_.IsDue(now) && reviews++ < kMostReviews) {
    if (!ReviewStarving(starving_.First(), now)) return;
  }
}

// False when nobody can be promoted now: the one that has waited longest is next as soon as it is possible.
bool StepScheduler::ReviewStarving(Sequence* sequence, TimePoint now) {
  // Asked again: the policy may have learnt something since.
  const std::optional<Promotion> promotion = policy_->PromotionOf(sequence->Snapshot(now));
  const bool promote = promotion.has_value() && sequence->last_served + promotion->after <= now;
  if (promote && !HasRoomToPromote(*sequence)) return false;
  LeaveQueue(sequence);
  if (promote) {
    Promote(sequence, promotion->service);
    Rerank(sequence, now);
  }
  EnterQueue(sequence, now);
  return true;
}

void StepScheduler::Promote(Sequence* sequence, std::optional<Duration> service) {
  ++promotions_;
  ++sequence->promotions;
  ++promoted_;
  sequence->promoted = true;
  sequence->promoted_until = service.has_value() ? sequence->attained + *service : Duration::max();
  sequence->promoted_blocks = kv_.BlocksFor(sequence->size());
  promoted_blocks_ += sequence->promoted_blocks;
}

void StepScheduler::EndPromotion(Sequence* sequence) {
  if (std::exchange(sequence->promoted, false)) --promoted_;
  promoted_blocks_ -= std::exchange(sequence->promoted_blocks, 0);
}

bool StepScheduler::HasRoomToPromote(const Sequence& sequence) const {
  if (promoted_ == 0) return true;
  return (promoted_ + 1) * kPromotedDivisor <= config_.max_sequences &&
         (promoted_blocks_ + kv_.BlocksFor(sequence.size())) * kPromotedDivisor <= config_.kv_blocks;
}

}  // namespace skipjack
