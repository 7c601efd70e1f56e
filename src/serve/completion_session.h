// One request from Start() to OnCompleted: its choices are sequences of one engine, submitted all or none;
// the first failure, cancellation or refusal decides how it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/timer_thread.h"
#include "serve/event_strand.h"
#include "serve/inference_service.h"
#include "serve/request_table.h"
#include "text/output_text.h"

namespace skipjack {

// Clients of a server that loads, drains or is out of order come back to another one, or to the same a little
// later.
inline constexpr int kUnavailableRetrySeconds = 5;

// What a request became after checking and tokenising.
struct PreparedCompletion {
  std::shared_ptr<ServedModel> model;
  std::vector<TokenId> prompt;
  SamplingParams sampling;  // of choice 0: choice i draws with seed + i
  std::int32_t choices = 1;
  OutputText::Options output;
};

class CompletionSession final : public CompletionCall,
                                public std::enable_shared_from_this<CompletionSession> {
 public:
  struct Identity {
    RequestTable::Key key = 0;
    std::string request_id;
    std::string model;  // as asked for: may be empty
    std::string tenant;
    std::string cache_salt{};  // see CacheSalt()
    PriorityClass priority = PriorityClass::kInteractive;
    bool timeline = false;
    TimePoint start;
    std::optional<TimePoint> deadline;
  };

  // `table`, `timer` and `clock` outlive every session that is in the table.
  CompletionSession(Identity identity, std::shared_ptr<CompletionListener> listener, RequestTable& table,
                    TimerThread& timer, const Clock& clock);

  // Ends the request at the deadline while it is being prepared; the engine sees to the deadline afterwards.
  // Once, before anything else.
  void WatchDeadline();

  // Any thread. A request that is still being prepared ends at once (heard of on the timer's thread).
  void Cancel(Status why) override;

  // The preparing thread: exactly one of the two. Neither has an effect when the request has ended already.
  void Refuse(Status why, std::optional<int> retry_after_seconds);
  void Submit(PreparedCompletion prepared);
  // False when the rest of the preparation would be for nothing.
  bool wanted() const;

  const std::string& request_id() const { return identity_.request_id; }
  PriorityClass priority() const { return identity_.priority; }
  LiveRequest Describe() const;

  struct Sequences {
    std::shared_ptr<ServedModel> model;  // nullptr: not submitted, or ended
    std::vector<SequenceId> ids;         // by choice
  };
  Sequences Submitted() const;

  // From the choices, on the engine's step thread.
  void OnChoiceToken() { generated_tokens_.fetch_add(1, std::memory_order_relaxed); }
  void OnChoiceDelta(ChoiceDelta delta);
  // `finish` exactly when event.status is ok.
  void OnChoiceEnd(std::int32_t choice, std::optional<ChoiceFinish> finish, const FinishEvent& event);

 private:
  enum class Phase : std::uint8_t { kPreparing, kSubmitted, kEnded };

  bool SubmitChoice(const PreparedCompletion& prepared, std::int32_t choice);
  // Settles how the request ends, unless that is settled already, and ends what was submitted. The sequences
  // hear `for_sequences`.
  void Fail(Status why, const Status& for_sequences, std::optional<int> retry_after_seconds);
  // For what the engine says: when a client may try again, if at all.
  std::optional<int> RetryAfter(const Status& why) const;
  void AddToUsage(const FinishEvent& event);
  void AddTimeline(std::int32_t choice, const FinishEvent& event);
  // One sequence, or the submission itself, is over; the last one ends the request.
  void Release(std::unique_lock<std::mutex> lock);
  // Takes the request out of the table and lets the model go. Returns the last event.
  Completed End(std::unique_lock<std::mutex> lock);

  const Identity identity_;
  RequestTable& table_;
  TimerThread& timer_;
  const Clock& clock_;
  EventStrand strand_;
  TimerThread::TimerId deadline_timer_ = 0;  // constant after WatchDeadline()
  std::atomic<std::int32_t> prompt_tokens_{0};
  std::atomic<std::int32_t> generated_tokens_{0};
  std::atomic<bool> failed_{false};  // status_ is not ok

  // Never held while anybody else is called.
  mutable std::mutex mutex_;
  Phase phase_ = Phase::kPreparing;
  Status status_;
  Status for_sequences_;  // once failed: what ends those that are still live
  std::optional<int> retry_after_seconds_;
  std::shared_ptr<ServedModel> model_;  // while submitted
  std::string model_name_;              // the real one, from submission on
  std::vector<SequenceId> sequences_;
  std::int32_t outstanding_ = 0;  // sequences that have not finished, plus one during submission
  std::int32_t finished_ = 0;
  Usage usage_;
  Timings timings_;
  std::vector<ChoiceTimeline> timelines_;
};

}  // namespace skipjack
