#include "engine/inbox.h"

#include <string>
#include <utility>

namespace skipjack {
namespace {

Status QueueFull(std::size_t sequences, const std::string& state, std::int64_t limit) {
  return Status::ResourceExhausted("the queue is full: " + std::to_string(sequences) + " sequences " + state +
                                   ", the limit is " + std::to_string(limit));
}

}  // namespace

Status Inbox::AdmitLocked() {
  Status status = closed_;
  const std::int64_t most_live = std::int64_t{max_queued_} + max_running_;
  if (status.ok() && queued_ >= max_queued_) {
    status = QueueFull(static_cast<std::size_t>(queued_), "wait", max_queued_);
  }
  if (status.ok() && static_cast<std::int64_t>(live_.size()) >= most_live) {
    status = QueueFull(live_.size(), "wait, run or are preempted", most_live);
  }
  if (!status.ok()) ++rejected_;
  return status;
}

Status Inbox::Admit() {
  std::lock_guard guard(mutex_);
  return AdmitLocked();
}

Status Inbox::Submit(Submission submission) {
  {
    std::lock_guard guard(mutex_);
    if (Status status = AdmitLocked(); !status.ok()) return status;
    live_.emplace(submission.sequence->id, LiveEntry{});
    ++queued_;
    ++unpublished_;
    const bool realtime = submission.request.priority == PriorityClass::kRealtime;
    const TimePoint arrival = submission.request.arrival;
    submissions_.push_back(std::move(submission));
    if (realtime) {
      realtime_came_ = true;
      InterruptLocked(arrival);
    }
  }
  mail_came_.notify_one();
  return Status::Ok();
}

void Inbox::InterruptLocked(TimePoint now) {
  if (step_ && step_->IsWorthInterrupting(now)) interrupt_.Request(step_->ticket);
}

void Inbox::BeginStep(const InterruptibleStep& step, TimePoint now) {
  std::lock_guard guard(mutex_);
  step_ = step;
  if (realtime_came_) InterruptLocked(now);
}

void Inbox::EndStep() {
  std::lock_guard guard(mutex_);
  step_.reset();
}

void Inbox::CountRejected() {
  std::lock_guard guard(mutex_);
  ++rejected_;
}

void Inbox::Cancel(SequenceId sequence, Status why) {
  if (why.ok()) why = Status::Cancelled("cancelled");
  {
    std::lock_guard guard(mutex_);
    const auto found = live_.find(sequence);
    if (found == live_.end() || found->second.cancelling) return;
    found->second.cancelling = true;
    cancellations_.push_back({sequence, std::move(why)});
  }
  mail_came_.notify_one();
}

void Inbox::Stop() {
  {
    std::lock_guard guard(mutex_);
    stop_ = true;
    if (closed_.ok()) closed_ = Status::Unavailable("the engine is stopping");
  }
  mail_came_.notify_one();
}

void Inbox::Break(Status why, Status refusal) {
  std::lock_guard guard(mutex_);
  closed_ = std::move(refusal);
  broken_ = std::move(why);
}

Status Inbox::Broken() const {
  std::lock_guard guard(mutex_);
  return broken_;
}

EngineStats Inbox::Stats() const {
  std::lock_guard guard(mutex_);
  EngineStats stats = published_;
  stats.pending_submissions = unpublished_;
  stats.rejected = rejected_;
  return stats;
}

std::int32_t Inbox::Live() const {
  std::lock_guard guard(mutex_);
  return static_cast<std::int32_t>(live_.size());
}

bool Inbox::IsQueued(SequenceId sequence) const {
  std::lock_guard guard(mutex_);
  const auto found = live_.find(sequence);
  return found != live_.end() && !found->second.started;
}

void Inbox::Take(Mail* mail) {
  mail->submissions.clear();
  mail->cancellations.clear();
  std::lock_guard guard(mutex_);
  mail->submissions.swap(submissions_);
  mail->cancellations.swap(cancellations_);
  mail->stop = stop_;
  realtime_came_ = false;
  taken_ += static_cast<std::int32_t>(mail->submissions.size());
}

void Inbox::Wait(const Clock& clock, std::optional<TimePoint> deadline) {
  std::unique_lock lock(mutex_);
  while (submissions_.empty() && cancellations_.empty() && !stop_) {
    if (!deadline) {
      mail_came_.wait(lock);
    } else if (clock.Now() < *deadline) {
      clock.WaitUntil(mail_came_, lock, *deadline);
    } else {
      return;
    }
  }
}

void Inbox::MarkStarted(SequenceId sequence) {
  std::lock_guard guard(mutex_);
  const auto found = live_.find(sequence);
  if (found == live_.end() || found->second.started) return;
  found->second.started = true;
  --queued_;
}

void Inbox::Publish(const EngineStats& stats, std::span<const SequenceId> ended) {
  std::lock_guard guard(mutex_);
  published_ = stats;
  unpublished_ -= taken_;
  taken_ = 0;
  for (const SequenceId sequence : ended) {
    const auto found = live_.find(sequence);
    if (found == live_.end()) continue;
    if (!found->second.started) --queued_;
    live_.erase(found);
  }
}

}  // namespace skipjack
