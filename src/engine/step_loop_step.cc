// One step: note what is scheduled, compute, sample, hand out tokens, complete.
#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "engine/step_loop.h"

namespace skipjack {
namespace {

// Failed steps in a row after which the device is given up.
constexpr int kStickyFailures = 3;
// How much longer than the longest so far a step may take before it counts as stalled.
constexpr int kPatience = 10;

}  // namespace

void StepLoop::RunStep() {
  const TimePoint start = clock_.Now();
  NoteScheduled(start);
  StartCopies();
  result_.step = plan_.step;
  result_.failed = false;
  result_.dropped = false;
  result_.outcomes.clear();
  row_count_ = 0;
  if (!plan_.slices.empty()) {
    BuildBatch();
    AllowInterrupts(start);
    const Result<StepLogits> logits = Compute();
    inbox_.EndStep();
    if (!logits.ok()) {
      FinishCopies();
      if (logits.status().code() == StatusCode::kAborted) return DropStep(start);
      FailStep(logits.status());
      watchdog_.Progressed();
      return;
    }
    failed_steps_ = 0;
    CollectRows();
    if (row_count_ > 0) sampler_.Sample(*runner_, *logits, std::span(rows_).first(row_count_));
  }
  // Whoever was cancelled while the step computed hears no more of it.
  TakeMail();
  DeliverRows();
  FinishCopies();
  const TimePoint end = clock_.Now();
  {
    std::lock_guard guard(scheduler_mutex_);
    scheduler_->Complete(result_, end);
  }
  NoteLevels();
  LogLongWait(end);
  ++stats_.steps;
  if (step_has_others_) interrupts_.NoteAdvanced();
  NoteStepTime(end - start);
  watchdog_.Progressed();
  observer_->OnStep(ToSeconds(end - start), step_prompt_tokens_, step_decode_tokens_);
}

void StepLoop::StartCopies() {
  copies_before_ = {};
  copies_beside_ = {};
  if (!plan_.copies_before.empty()) {
    const TimePoint start = clock_.Now();
    runner_->CopyBlocks(plan_.copies_before, &copies_before_);
    stats_.copy_wait_seconds += ToSeconds(clock_.Now() - start);
  }
  if (copy_thread_ != nullptr) copy_thread_->Start(plan_.copies_beside, &copies_beside_);
}

void StepLoop::FinishCopies() {
  if (copy_thread_ != nullptr) {
    const TimePoint start = clock_.Now();
    copy_thread_->Wait();
    stats_.copy_wait_seconds += ToSeconds(clock_.Now() - start);
  }
  result_.failed_copies = std::move(copies_before_.failed);
  result_.failed_copies.insert(result_.failed_copies.end(), copies_beside_.failed.begin(),
                               copies_beside_.failed.end());
  result_.host_copy_seconds = copies_before_.host_seconds + copies_beside_.host_seconds;
  result_.disk_copy_seconds = copies_before_.disk_seconds + copies_beside_.disk_seconds;
  if (result_.failed_copies.empty() || std::exchange(copy_failure_logged_, true)) return;
  const std::string& why = copies_beside_.why.empty() ? copies_before_.why : copies_beside_.why;
  spdlog::warn(
      "{}: a KV block could not be copied ({}); whose KV is lost this way is computed again. Further "
      "failures are "
      "only counted",
      runner_->description(), why);
}

void StepLoop::NoteStepTime(Duration time) {
  if (ToSeconds(time) <= stats_.longest_step_seconds) return;
  stats_.longest_step_seconds = ToSeconds(time);
  // A step longer than a tenth of the floor moves the limit.
  if (time > watchdog_floor_ / kPatience) watchdog_.Raise(FromSeconds(kPatience * ToSeconds(time)));
}

void StepLoop::NoteScheduled(TimePoint now) {
  if (!plan_.preempted.empty()) NotePreemptions(now);
  step_prompt_tokens_ = 0;
  step_decode_tokens_ = 0;
  step_has_realtime_ = false;
  step_has_others_ = false;
  for (const Slice& slice : plan_.slices) {
    LiveSequence* sequence = Find(slice.sequence);
    const bool decodes = slice.token_count == 1 && slice.position >= sequence->prompt_tokens;
    (decodes ? step_decode_tokens_ : step_prompt_tokens_) += slice.token_count;
    (sequence->realtime ? step_has_realtime_ : step_has_others_) = true;
    if (!sequence->first_scheduled || sequence->away_with) NoteArrival(sequence, slice.position, now);
    if (sequence->first_scheduled) continue;
    sequence->first_scheduled = now;
    inbox_.MarkStarted(sequence->id);
    std::lock_guard guard(scheduler_mutex_);
    if (const auto state = scheduler_->Find(sequence->id)) sequence->cached_tokens = state->cached_tokens;
  }
}

void StepLoop::BuildBatch() {
  slices_.clear();
  const std::span<const BlockId> tables = plan_.block_tables;
  for (const Slice& slice : plan_.slices) {
    slices_.push_back({.token_offset = slice.token_offset,
                       .token_count = slice.token_count,
                       .position = slice.position,
                       .block_table = tables.subspan(static_cast<std::size_t>(slice.table_offset),
                                                     static_cast<std::size_t>(slice.table_count)),
                       .logits_rows = slice.sample ? 1 : 0});
  }
}

// From here until Inbox::EndStep() a realtime submission may interrupt the step, if that helps it.
void StepLoop::AllowInterrupts(TimePoint now) {
  if (step_has_realtime_ || !interrupts_.Allows(now)) return;
  InterruptibleStep step = {.ticket = plan_.step, .worth_waiting = interrupt_threshold_};
  {
    std::lock_guard guard(scheduler_mutex_);
    if (!scheduler_->admits_between_steps()) return;
    if (const auto expected = scheduler_->ExpectedTime()) step.expected_end = now + *expected;
  }
  inbox_.BeginStep(step, now);
}

// A step is idempotent, so one that failed is tried once more.
Result<StepLogits> StepLoop::Compute() {
  const StepBatch batch = {plan_.tokens, slices_, &inbox_.interrupt(), plan_.step};
  Result<StepLogits> logits = runner_->Forward(batch);
  if (logits.ok() || logits.status().code() == StatusCode::kAborted) return logits;
  spdlog::warn("step {} failed and is tried again: {}", plan_.step, logits.status().ToString());
  return runner_->Forward(batch);
}

// To the watchdog the device has answered; to whatever else counts steps there was none.
void StepLoop::DropStep(TimePoint start) {
  const TimePoint now = clock_.Now();
  result_.dropped = true;
  {
    std::lock_guard guard(scheduler_mutex_);
    scheduler_->Complete(result_, now);
  }
  spdlog::debug("step {} was interrupted after {:.1f} ms", plan_.step, 1e3 * ToSeconds(now - start));
  interrupts_.NoteDropped(now - start, now);
  ++stats_.interrupted_steps;
  stats_.interrupted_seconds += ToSeconds(now - start);
  watchdog_.Progressed();
}

void StepLoop::FailStep(const Status& why) {
  ++failed_steps_;
  spdlog::error("step {} failed twice and ends its {} sequences: {}", plan_.step, plan_.slices.size(),
                why.ToString());
  result_.failed = true;
  {
    std::lock_guard guard(scheduler_mutex_);
    scheduler_->Complete(result_, clock_.Now());
  }
  const Status status = Status::Internal("the model could not compute a step: " + why.ToString());
  for (const Slice& slice : plan_.slices) Abort(slice.sequence, status);
  if (failed_steps_ >= kStickyFailures) GiveUp(why);
}

// The others failed at nothing: elsewhere, or here after a restart, they may well succeed.
void StepLoop::GiveUp(const Status& why) {
  const std::string what = "the engine is out of order, " + std::to_string(failed_steps_) +
                           " steps in a row failed; the last one: " + why.ToString();
  spdlog::critical("{}", what);
  const Status refusal = Status::Unavailable(what);
  inbox_.Break(Status::Internal(what), refusal);
  AbortAll(refusal);
  if (on_broken_) on_broken_(Status::Internal(what));
}

void StepLoop::CollectRows() {
  row_count_ = 0;
  for (const Slice& slice : plan_.slices) {
    if (!slice.sample) continue;
    SampledRow& row = rows_[row_count_++];
    row.id = slice.sequence;
    row.sequence = Find(slice.sequence);
  }
}

void StepLoop::DeliverRows() {
  const TimePoint now = clock_.Now();
  for (SampledRow& row : std::span(rows_).first(row_count_)) {
    if (LiveSequence* sequence = Find(row.id); sequence != nullptr) DeliverRow(&row, sequence, now);
  }
}

void StepLoop::DeliverRow(SampledRow* row, LiveSequence* sequence, TimePoint now) {
  SliceOutcome& outcome = result_.outcomes.emplace_back(SliceOutcome{.sequence = row->id});
  if (!row->status.ok()) {
    const bool non_finite = row->status.code() == StatusCode::kInternal;
    if (non_finite) ++stats_.non_finite_logits;
    outcome.finished = true;
    outcome.tainted = non_finite;
    spdlog::warn("sequence {} ({}) ends after {} tokens: {}", sequence->id, sequence->request_id,
                 sequence->sampler.generated(), row->status.ToString());
    End(row->id, FinishReason::kError, row->status);
    return;
  }
  TokenEvent& event = row->event;
  outcome.token = event.token.token;
  event.index = sequence->sampler.generated();
  event.ends_text = sequence->sampler.EndsText(outcome.token);
  sequence->sampler.Accept(outcome.token);
  NoteToken(sequence, now);
  const bool matched = sequence->sink->OnToken(event);
  const SamplingParams& params = sequence->sampler.params();
  const std::int32_t generated = sequence->sampler.generated();
  const bool scripted = params.end_after_tokens > 0 && generated >= params.end_after_tokens;
  const bool stops = matched || event.ends_text || scripted;
  const bool full = generated >= params.max_tokens;
  if (!stops && !full) return;
  outcome.finished = true;
  End(row->id, stops ? FinishReason::kStop : FinishReason::kLength, Status::Ok());
}

void StepLoop::NoteToken(LiveSequence* sequence, TimePoint now) {
  ++stats_.generated_tokens;
  if (!sequence->first_token) {
    sequence->first_token = now;
    if (sequence->timeline) {
      sequence->timeline->Add(sequence->EventAt(TimelineEvent::Kind::kFirstToken, now));
    }
    stats_.prompt_tokens += static_cast<std::uint64_t>(sequence->prompt_tokens);
    observer_->OnFirstToken(ToSeconds(now - sequence->submitted),
                            ToSeconds(*sequence->first_scheduled - sequence->submitted));
  } else {
    observer_->OnToken(ToSeconds(now - sequence->last_token));
  }
  sequence->last_token = now;
}

}  // namespace skipjack
