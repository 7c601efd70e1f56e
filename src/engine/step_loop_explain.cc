// What the loop tells of its sequences: explanations, their timelines, and the log.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "engine/step_loop.h"

namespace skipjack {
namespace {

// Whoever has waited longer is worth a line, and one line that often.
constexpr Duration kLongWait = std::chrono::seconds(10);

}  // namespace

std::optional<SequenceExplanation> StepLoop::Explain(SequenceId id) const {
  {
    std::lock_guard guard(scheduler_mutex_);
    if (auto explanation = scheduler_->Explain(id, clock_.Now())) return explanation;
  }
  // Submitted while a step computes: no plan has seen it.
  if (!inbox_.IsQueued(id)) return std::nullopt;
  return SequenceExplanation{.ahead_is_more = true, .waits_for = WaitNote{}};
}

void StepLoop::NotePreemptions(TimePoint now) {
  for (const Preemption& preemption : plan_.preempted) {
    LiveSequence* sequence = Find(preemption.sequence);
    if (sequence == nullptr) continue;
    ++sequence->preemptions;
    sequence->away_with = preemption.tokens_lost;
    preemption_log_.Add(preemption);
    const LiveSequence* by = Find(preemption.by);
    spdlog::debug("sequence {} ({}) was preempted ({}) by sequence {} ({}) and loses {} computed tokens",
                  sequence->id, sequence->request_id, PreemptionCauseName(preemption.cause), preemption.by,
                  by != nullptr ? by->request_id : "nobody else", preemption.tokens_lost);
    if (sequence->timeline == nullptr) continue;
    NoteLevel(sequence);
    TimelineEvent event = sequence->EventAt(TimelineEvent::Kind::kPreempted, now);
    event.cause = preemption.cause;
    event.tokens_lost = preemption.tokens_lost;
    {
      std::lock_guard guard(scheduler_mutex_);
      if (const auto other = scheduler_->Find(preemption.by)) event.level = other->level;
    }
    sequence->timeline->Add(event);
  }
  if (const auto line = preemption_log_.TakeLine(now)) spdlog::info("{}: {}", runner_->description(), *line);
}

// It is in a plan for the first time, or again after a preemption: `position` tokens are there already.
void StepLoop::NoteArrival(LiveSequence* sequence, std::int32_t position, TimePoint now) {
  const bool resumed = sequence->away_with.has_value() && sequence->first_scheduled.has_value();
  const std::int32_t lost = sequence->away_with.value_or(0);
  sequence->away_with.reset();
  const std::int32_t again = std::max(lost - position, 0);
  if (resumed) {
    spdlog::debug("sequence {} ({}) goes on: {} of {} tokens are computed again", sequence->id,
                  sequence->request_id, again, lost);
  }
  if (sequence->timeline == nullptr) return;
  NoteLevel(sequence);
  TimelineEvent event =
      sequence->EventAt(resumed ? TimelineEvent::Kind::kResumed : TimelineEvent::Kind::kScheduled, now);
  if (resumed) {
    event.tokens_restored = std::min(position, lost);
    event.tokens_recomputed = again;
  }
  sequence->timeline->Add(event);
}

// A level is looked at where it may have changed: after a step, and before what happens to a sequence next.
void StepLoop::NoteLevel(LiveSequence* sequence) {
  std::lock_guard guard(scheduler_mutex_);
  const auto state = scheduler_->Find(sequence->id);
  if (!state || state->level == sequence->level) return;
  sequence->level = state->level;
  TimelineEvent event = sequence->EventAt(TimelineEvent::Kind::kLevel, state->level_since);
  event.level = state->level;
  sequence->timeline->Add(event);
}

void StepLoop::NoteLevels() {
  if (timelines_ == 0) return;
  for (const Slice& slice : plan_.slices) {
    LiveSequence* sequence = Find(slice.sequence);
    if (sequence != nullptr && sequence->timeline != nullptr) NoteLevel(sequence);
  }
}

// Why those who wait do so, when the first of them has waited for long.
void StepLoop::LogLongWait(TimePoint now) {
  if (now < next_wait_line_) return;
  next_wait_line_ = now + kLongWait;
  std::optional<SequenceExplanation> first;
  std::optional<SequenceId> id;
  std::int32_t waiting = 0;
  {
    std::lock_guard guard(scheduler_mutex_);
    id = scheduler_->FirstWaiting();
    if (!id) return;
    first = scheduler_->Explain(*id, now);
    waiting = scheduler_->Stats().waiting;
  }
  const LiveSequence* sequence = Find(*id);
  if (!first || sequence == nullptr || first->since_served < kLongWait) return;
  const auto name = [this](SequenceId other) {
    const LiveSequence* live = Find(other);
    return live != nullptr ? "request " + live->request_id : std::string("a request that has ended");
  };
  spdlog::info("{}: {} sequences wait; the first of them ({}), not served for {:.1f} s, {}",
               runner_->description(), waiting, sequence->request_id, ToSeconds(first->since_served),
               ToSentence(*first, name));
}

}  // namespace skipjack
