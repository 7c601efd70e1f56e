// Why a sequence waits, runs or was preempted. Where the planner decides it leaves a note; nothing here
// decides anew.
//
// A plan looks at waiting sequences in order and stops at the first that it cannot let in, or when the step
// is full: a note on each of the others would cost a walk over all of them. So the plan keeps one note for
// the rest, and who has none of its own from that plan is part of the rest.
#include <algorithm>

#include "sched/step_scheduler.h"

namespace skipjack {
namespace {

SequenceExplanation::Phase PhaseOf(SequencePhase phase) {
  switch (phase) {
    case SequencePhase::kWaiting:
      return SequenceExplanation::Phase::kWaiting;
    case SequencePhase::kPreempted:
      return SequenceExplanation::Phase::kPreempted;
    case SequencePhase::kPrefilling:
      return SequenceExplanation::Phase::kPrefilling;
    case SequencePhase::kDecoding:
    case SequencePhase::kFinished:  // is not found any more
      break;
  }
  return SequenceExplanation::Phase::kDecoding;
}

}  // namespace

void StepScheduler::StartNotes(bool admitting) {
  ++notes_in_;
  noted_tickets_ = next_ticket_;
  noted_step_ = last_step_ + 1;
  // Unless somebody is blocked, it is the end of the budget that stops a plan.
  rest_ = {.reason = admitting ? WaitReason::kTokenBudget : WaitReason::kClosedBatch};
}

void StepScheduler::Note(Sequence* candidate, const WaitNote& note) {
  candidate->wait = note;
  candidate->wait_in = notes_in_;
}

StepScheduler::Admission StepScheduler::Block(Sequence* candidate, WaitReason reason, std::int64_t wanted,
                                              std::int64_t available) {
  const bool seat = reason == WaitReason::kSeat;
  if (std::exchange(paused_, false)) reason = WaitReason::kLostWork;
  if (seat) wanted = available = 0;
  Note(candidate, {.reason = reason, .blocks_wanted = wanted, .blocks_available = available});
  rest_ = {.reason = WaitReason::kBehind,
           .other = candidate->id,
           .other_reason = reason,
           .blocks_wanted = wanted,
           .blocks_available = available};
  return Admission::kBlocked;
}

PreemptionCause StepScheduler::CauseOf(const Sequence& candidate, const Sequence& victim) {
  if (candidate.priority != victim.priority) return PreemptionCause::kPriority;
  return candidate.late != victim.late ? PreemptionCause::kDeadline : PreemptionCause::kPolicy;
}

void StepScheduler::NotePreemption(Sequence* victim, const Sequence& by, PreemptionCause cause) {
  ++preemptions_[static_cast<std::size_t>(cause)];
  victim->preempted = {.cause = cause,
                       .by = &by != victim ? by.id : 0,
                       .by_level = by.rank.policy.level,
                       .tokens_lost = victim->computed,
                       .at = now_};
}

std::optional<WaitNote> StepScheduler::WaitOf(const Sequence& sequence) const {
  const bool waits =
      sequence.phase() == SequencePhase::kWaiting || sequence.phase() == SequencePhase::kPreempted;
  if (!waits) {
    // It holds its place; only the budget keeps a prompt out of a plan.
    if (sequence.loading) return WaitNote{.reason = WaitReason::kCopies};
    const bool left_out = in_flight_ && sequence.scheduled == 0;
    return left_out ? std::optional(WaitNote{.reason = WaitReason::kTokenBudget}) : std::nullopt;
  }
  if (notes_in_ == 0 || sequence.ticket >= noted_tickets_) return WaitNote{};
  if (sequence.wait_in == notes_in_) return sequence.wait;
  if (sequence.preempted_in == noted_step_) return WaitNote{.reason = WaitReason::kGaveWay};
  return rest_;
}

std::optional<SequenceExplanation> StepScheduler::Explain(SequenceId id, TimePoint now) const {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return std::nullopt;
  const Sequence& sequence = *found->second;
  SequenceExplanation out{.phase = PhaseOf(sequence.phase()),
                          .priority = sequence.priority,
                          .late = sequence.late,
                          .share = sequence.share,
                          .level = sequence.rank.policy.level,
                          .key = sequence.rank.policy.key,
                          .waits_for = WaitOf(sequence),
                          .seats = config_.max_sequences,
                          .running = static_cast<std::int32_t>(running_.size()),
                          .scheduled = sequence.scheduled,
                          .blocks = sequence.table.size(),
                          .computed_tokens = sequence.computed,
                          .prompt_tokens = sequence.prompt_tokens,
                          .generated_tokens = sequence.generated(),
                          .max_tokens = sequence.max_tokens,
                          .preemptions = sequence.preemptions,
                          .promotions = sequence.promotions,
                          .since_served = now - sequence.last_served,
                          .preempted = sequence.preempted};
  if (sequence.preempted.has_value()) out.since_preempted = now - sequence.preempted->at;
  if (sequence.promote_at.has_value()) out.promoted_in = std::max(*sequence.promote_at - now, Duration{});
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    if (!((*at)->rank < sequence.rank)) break;
    if (out.ahead == SequenceExplanation::kMostCounted) {
      out.ahead_is_more = true;
      break;
    }
    ++out.ahead;
  }
  return out;
}

std::optional<SequenceId> StepScheduler::FirstWaiting() const {
  if (waiting_.empty()) return std::nullopt;
  return (*waiting_.begin())->id;
}

}  // namespace skipjack
