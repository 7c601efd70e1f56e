// What goes into the loop and how sequences end. A step itself is in step_loop_step.cc.
#include "engine/step_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/thread_name.h"

namespace skipjack {
namespace {

FinishReason ReasonFor(const Status& why) {
  return why.code() == StatusCode::kCancelled ? FinishReason::kCancelled : FinishReason::kError;
}

}  // namespace

StepLoop::StepLoop(Parts parts, const EngineOptions& options)
    : clock_(*parts.clock),
      config_(options.scheduler),
      watchdog_floor_(options.watchdog),
      interrupt_threshold_(options.interrupt_threshold),
      on_broken_(options.on_broken),
      runner_(std::move(parts.runner)),
      observer_(std::move(parts.observer)),
      copy_thread_(config_.host_blocks + config_.disk_blocks > 0 ? std::make_unique<CopyThread>(runner_.get())
                                                                 : nullptr),
      sampler_(runner_->vocabulary(),
               options.max_sampled_id > 0 ? options.max_sampled_id : runner_->vocabulary(),
               options.scheduler.max_sequences),
      inbox_(options.scheduler.max_queued, options.scheduler.max_sequences),
      scheduler_(std::move(parts.scheduler)),
      interrupts_(options.max_interrupted_part),
      watchdog_(clock_, options.watchdog, [this](Duration stalled) { LogStall(stalled); }) {
  ReserveForLargestStep();
  stats_.scheduler = scheduler_->Stats();
  stats_.latency = scheduler_->Latency();
  inbox_.Publish(stats_, {});
}

void StepLoop::ReserveForLargestStep() {
  // Shared prefixes can make tables larger than the pool; those beyond this grow once.
  constexpr std::int64_t kMaxTableEntries = 1 << 20;
  constexpr std::size_t kMaxTopLogprobs = 20;
  const auto sequences = static_cast<std::size_t>(config_.max_sequences);
  const auto tokens = static_cast<std::size_t>(config_.max_batch_tokens);
  const std::int64_t blocks_per_sequence =
      (std::int64_t{config_.context_length} + config_.block_tokens - 1) / config_.block_tokens;
  plan_.slices.reserve(sequences);
  plan_.tokens.reserve(tokens);
  plan_.block_tables.reserve(
      static_cast<std::size_t>(std::min(blocks_per_sequence * config_.max_sequences, kMaxTableEntries)));
  plan_.preempted.reserve(sequences);
  result_.outcomes.reserve(sequences);
  slices_.reserve(sequences);
  rows_.resize(sequences);
  for (SampledRow& row : rows_) row.event.token.top.reserve(kMaxTopLogprobs);
  endings_.reserve(sequences);
  ended_ids_.reserve(sequences);
}

Status StepLoop::Health() const {
  if (Status broken = inbox_.Broken(); !broken.ok()) return broken;
  return watchdog_.Health();
}

void StepLoop::Run() {
  SetThreadName("step-loop");
  while (true) {
    TakeMail();
    if (mail_.stop) break;
    ExpireDeadlines();
    if (!endings_.empty()) Settle();
    {
      std::lock_guard guard(scheduler_mutex_);
      scheduler_->Plan(clock_.Now(), &plan_);
    }
    if (!plan_.empty()) RunStep();
    Settle();
    if (plan_.empty()) WaitForWork();
  }
  AbortAll(Status::Unavailable("the engine stopped"));
  Settle();
}

void StepLoop::TakeMail() {
  inbox_.Take(&mail_);
  for (Submission& submission : mail_.submissions) Admit(std::move(submission));
  for (Cancellation& cancellation : mail_.cancellations)
    Abort(cancellation.sequence, std::move(cancellation.why));
  mail_.submissions.clear();
  if (!live_.empty()) watchdog_.Working();
}

void StepLoop::Admit(Submission submission) {
  const SequenceId id = submission.sequence->id;
  if (submission.sequence->deadline) deadlines_.emplace(*submission.sequence->deadline, id);
  LiveSequence* sequence = live_.emplace(id, std::move(submission.sequence)).first->second.get();
  Status status;
  {
    std::lock_guard guard(scheduler_mutex_);
    status = scheduler_->Submit(std::move(submission.request));
    if (const auto state = scheduler_->Find(id)) sequence->level = state->level;
  }
  if (sequence->timeline) {
    ++timelines_;
    TimelineEvent event = sequence->EventAt(TimelineEvent::Kind::kSubmitted, sequence->submitted);
    event.level = sequence->level;
    sequence->timeline->Add(event);
  }
  if (!status.ok()) End(id, FinishReason::kError, std::move(status));
}

void StepLoop::ExpireDeadlines() {
  if (deadlines_.empty()) return;
  const TimePoint now = clock_.Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const SequenceId id = deadlines_.begin()->second;
    const LiveSequence* sequence = Find(id);
    Abort(id, Status::DeadlineExceeded(
                  "the deadline passed " + std::to_string(ToSeconds(now - sequence->submitted)) +
                  " s after submission, " + std::to_string(sequence->sampler.generated()) +
                  " tokens were generated"));
  }
}

void StepLoop::WaitForWork() {
  std::optional<TimePoint> deadline;
  if (!deadlines_.empty()) deadline = deadlines_.begin()->first;
  inbox_.Wait(clock_, deadline);
}

LiveSequence* StepLoop::Find(SequenceId sequence) {
  const auto found = live_.find(sequence);
  return found == live_.end() ? nullptr : found->second.get();
}

void StepLoop::End(SequenceId id, FinishReason reason, Status status) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  Ending ending;
  ending.sequence = std::move(found->second);
  live_.erase(found);
  const LiveSequence& sequence = *ending.sequence;
  if (sequence.deadline) deadlines_.erase({*sequence.deadline, id});

  const TimePoint now = clock_.Now();
  ending.event.reason = reason;
  ending.event.status = std::move(status);
  ending.event.prompt_tokens = sequence.prompt_tokens;
  ending.event.generated_tokens = sequence.sampler.generated();
  ending.event.timings = sequence.TimingsAt(now);
  ending.total_seconds = ToSeconds(now - sequence.submitted);
  if (sequence.timeline) {
    --timelines_;
    sequence.timeline->Add(sequence.EventAt(TimelineEvent::Kind::kFinished, now));
    ending.event.timeline = sequence.timeline;
  }
  switch (reason) {
    case FinishReason::kStop:
      ++stats_.finished_stop;
      break;
    case FinishReason::kLength:
      ++stats_.finished_length;
      break;
    case FinishReason::kCancelled:
      ++stats_.finished_cancelled;
      break;
    case FinishReason::kError:
      ++stats_.finished_error;
      break;
  }
  endings_.push_back(std::move(ending));
}

void StepLoop::Abort(SequenceId id, Status why) {
  {
    std::lock_guard guard(scheduler_mutex_);
    scheduler_->Cancel(id);
  }
  const FinishReason reason = ReasonFor(why);
  End(id, reason, std::move(why));
}

void StepLoop::AbortAll(const Status& why) {
  while (!live_.empty()) Abort(live_.begin()->first, why);
}

void StepLoop::Settle() {
  {
    std::lock_guard guard(scheduler_mutex_);
    stats_.scheduler = scheduler_->Stats();
    stats_.latency = scheduler_->Latency();
  }
  ended_ids_.clear();
  for (const Ending& ending : endings_) ended_ids_.push_back(ending.sequence->id);
  inbox_.Publish(stats_, ended_ids_);
  if (live_.empty()) watchdog_.Idle();
  for (const Ending& ending : endings_) {
    observer_->OnFinish(ending.event, ending.total_seconds);
    ending.sequence->sink->OnFinish(ending.event);
  }
  endings_.clear();
}

std::string StepLoop::DebugString() const {
  const std::unique_lock lock(scheduler_mutex_, std::try_to_lock);
  return lock.owns_lock() ? scheduler_->DebugString() : "the loop is inside the scheduler\n";
}

// On the watchdog's thread.
void StepLoop::LogStall(Duration stalled) {
  spdlog::error("{}: work waits and no step has ended for {:.1f} s\n{}", runner_->description(),
                ToSeconds(stalled), DebugString());
}

}  // namespace skipjack
