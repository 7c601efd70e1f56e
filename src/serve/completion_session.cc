#include "serve/completion_session.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "serve/choice_output.h"

namespace skipjack {
namespace {

double TotalSeconds(const Timings& t) {
  return t.queue_seconds + t.prefill_seconds + t.decode_seconds;
}

std::int64_t UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

// Clients' and operators' doings are the front ends' to log; what went wrong here must not need their logs.
void LogFault(const std::string& request_id, const std::string& model, const Status& status) {
  const StatusCode code = status.code();
  if (code != StatusCode::kInternal && code != StatusCode::kUnknown && code != StatusCode::kDataLoss) return;
  spdlog::error("request {} on model '{}' failed: {}", request_id, model, status.ToString());
}

}  // namespace

CompletionSession::CompletionSession(Identity identity, std::shared_ptr<CompletionListener> listener,
                                     RequestTable& table, TimerThread& timer, const Clock& clock)
    : identity_(std::move(identity)),
      table_(table),
      timer_(timer),
      clock_(clock),
      strand_(std::move(listener), [&table] { table.Delivered(); }),
      model_name_(identity_.model) {}

void CompletionSession::WatchDeadline() {
  if (!identity_.deadline) return;
  deadline_timer_ = timer_.At(*identity_.deadline, [weak = weak_from_this()] {
    if (const auto session = weak.lock()) {
      session->Cancel(
          Status::DeadlineExceeded("the deadline passed while the request waited for tokenising"));
    }
  });
}

void CompletionSession::Cancel(Status why) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kPreparing) {
    lock.unlock();
    const Status for_sequences = why;
    Fail(std::move(why), for_sequences, std::nullopt);
    return;
  }
  status_ = std::move(why);
  failed_ = true;
  // On the timer's thread: a listener must not be called from inside its own Cancel().
  timer_.Post([self = shared_from_this(), completed = End(std::move(lock))]() mutable {
    self->strand_.Post(std::move(completed));
    self->strand_.OpenRefused();
  });
}

void CompletionSession::Refuse(Status why, std::optional<int> retry_after_seconds) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kPreparing) return;
  status_ = std::move(why);
  failed_ = true;
  retry_after_seconds_ = retry_after_seconds;
  strand_.Post(End(std::move(lock)));
  strand_.OpenRefused();
}

bool CompletionSession::wanted() const {
  std::lock_guard lock(mutex_);
  return phase_ == Phase::kPreparing;
}

void CompletionSession::Submit(PreparedCompletion prepared) {
  {
    std::lock_guard lock(mutex_);
    if (phase_ != Phase::kPreparing) return;
    phase_ = Phase::kSubmitted;
    model_ = prepared.model;
    model_name_ = model_->name;
    outstanding_ = 1;
    usage_.prompt_tokens = static_cast<std::int32_t>(prepared.prompt.size());
  }
  prompt_tokens_ = usage_.prompt_tokens;
  if (deadline_timer_ != 0) timer_.Cancel(*identity_.deadline, deadline_timer_);

  bool submitted = true;
  for (std::int32_t choice = 0; choice < prepared.choices && submitted; ++choice) {
    submitted = SubmitChoice(prepared, choice);
  }
  if (submitted && !failed_) {
    strand_.OpenWith({.request_id = identity_.request_id,
                      .model = prepared.model->name,
                      .created_unix_seconds = UnixSeconds(),
                      .prompt_tokens = std::move(prepared.prompt)});
  } else {
    strand_.OpenRefused();
  }
  prepared.model.reset();
  Release(std::unique_lock(mutex_));
}

bool CompletionSession::SubmitChoice(const PreparedCompletion& prepared, std::int32_t choice) {
  {
    std::lock_guard lock(mutex_);
    if (!status_.ok()) return false;
    ++outstanding_;
  }
  const ServedModel& model = *prepared.model;
  SequenceRequest request{.prompt = prepared.prompt,
                          .sampling = prepared.sampling,
                          .end_tokens = model.end_tokens,
                          .tenant = identity_.tenant,
                          .cache_salt = identity_.cache_salt,
                          .priority = identity_.priority,
                          .deadline = identity_.deadline,
                          .request_id = identity_.request_id,
                          .timeline = identity_.timeline};
  request.sampling.seed += static_cast<std::uint64_t>(choice);
  auto sink = std::make_shared<ChoiceOutput>(shared_from_this(), choice, model.tokenizer, prepared.output);
  const Result<SequenceId> sequence = model.engine->Submit(std::move(request), std::move(sink));

  std::unique_lock lock(mutex_);
  if (!sequence.ok()) {
    --outstanding_;  // not the last one: the submission itself counts
    lock.unlock();
    Fail(sequence.status(), Status::Cancelled("another choice of this request was refused"),
         RetryAfter(sequence.status()));
    return false;
  }
  sequences_.push_back(*sequence);
  if (status_.ok()) return true;
  // Failed in between, and whoever failed it did not know of this sequence yet.
  const Status why = for_sequences_;
  lock.unlock();
  model.engine->Cancel(*sequence, why);
  return false;
}

void CompletionSession::Fail(Status why, const Status& for_sequences,
                             std::optional<int> retry_after_seconds) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kSubmitted || !status_.ok()) return;
  status_ = std::move(why);
  for_sequences_ = for_sequences;
  failed_ = true;
  retry_after_seconds_ = retry_after_seconds;
  const std::shared_ptr<ServedModel> model = model_;
  const std::vector<SequenceId> sequences = sequences_;
  lock.unlock();
  for (const SequenceId sequence : sequences) model->engine->Cancel(sequence, for_sequences);
}

std::optional<int> CompletionSession::RetryAfter(const Status& why) const {
  if (why.code() == StatusCode::kResourceExhausted) return table_.RetryAfterSeconds();
  if (why.code() == StatusCode::kUnavailable) return kUnavailableRetrySeconds;
  return std::nullopt;
}

void CompletionSession::OnChoiceDelta(ChoiceDelta delta) {
  if (!failed_.load(std::memory_order_relaxed)) strand_.Post(std::move(delta));
}

void CompletionSession::OnChoiceEnd(std::int32_t choice, std::optional<ChoiceFinish> finish,
                                    const FinishEvent& event) {
  if (!event.status.ok()) {
    Fail(event.status, Status::Cancelled("another choice of this request failed"), RetryAfter(event.status));
  } else if (finish && !failed_) {
    strand_.Post(*std::move(finish));
  }
  std::unique_lock lock(mutex_);
  AddToUsage(event);
  AddTimeline(choice, event);
  Release(std::move(lock));
}

void CompletionSession::AddToUsage(const FinishEvent& event) {
  usage_.completion_tokens += event.generated_tokens;
  const std::int32_t cached = event.timings.cached_tokens;
  usage_.cached_tokens = finished_ == 0 ? cached : std::min(usage_.cached_tokens, cached);
  if (finished_ == 0 || TotalSeconds(event.timings) > TotalSeconds(timings_)) timings_ = event.timings;
  ++finished_;
}

void CompletionSession::AddTimeline(std::int32_t choice, const FinishEvent& event) {
  if (event.timeline == nullptr) return;
  const auto at = std::ranges::upper_bound(timelines_, choice, {}, &ChoiceTimeline::choice);
  timelines_.insert(at, {choice, event.timeline});
}

void CompletionSession::Release(std::unique_lock<std::mutex> lock) {
  if (--outstanding_ > 0) return;
  strand_.Post(End(std::move(lock)));
}

Completed CompletionSession::End(std::unique_lock<std::mutex> lock) {
  const bool prepared = phase_ == Phase::kSubmitted;
  phase_ = Phase::kEnded;
  Completed completed{.status = status_,
                      .usage = usage_,
                      .timings = timings_,
                      .retry_after_seconds = retry_after_seconds_,
                      .timelines = std::move(timelines_)};
  std::shared_ptr<ServedModel> model = std::move(model_);
  LogFault(identity_.request_id, model_name_, completed.status);
  lock.unlock();

  if (!prepared && deadline_timer_ != 0) timer_.Cancel(*identity_.deadline, deadline_timer_);
  const bool served = completed.status.ok();
  table_.Leave(identity_.key, served ? std::optional(clock_.Now() - identity_.start) : std::nullopt);
  // Not here: the last reference to a model ends its engine, which must not happen on the engine's own
  // thread.
  if (model) timer_.Post([model = std::move(model)] {});
  return completed;
}

CompletionSession::Sequences CompletionSession::Submitted() const {
  std::lock_guard lock(mutex_);
  return {model_, sequences_};
}

LiveRequest CompletionSession::Describe() const {
  std::lock_guard lock(mutex_);
  return {.request_id = identity_.request_id,
          .model = model_name_,
          .tenant = identity_.tenant,
          .age = clock_.Now() - identity_.start,
          .prompt_tokens = prompt_tokens_,
          .generated_tokens = generated_tokens_};
}

}  // namespace skipjack
