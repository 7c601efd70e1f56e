// What other threads and the step loop share: submissions and cancellations on their way in, the published
// state on its way out. One mutex guards all of it and is held for moments only.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "backend/step_interrupt.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/interruptible_step.h"
#include "engine/live_sequence.h"
#include "sched/scheduler.h"

namespace skipjack {

struct Submission {
  std::unique_ptr<LiveSequence> sequence;
  SubmitRequest request;
};

struct Cancellation {
  SequenceId sequence = 0;
  Status why;
};

// Reused by the loop, so that the vectors keep their capacity.
struct Mail {
  std::vector<Submission> submissions;
  std::vector<Cancellation> cancellations;
  bool stop = false;
};

class Inbox {
 public:
  // Refuses when `max_queued` sequences wait for their first step, or when as many and `max_running` more
  // live.
  Inbox(std::int32_t max_queued, std::int32_t max_running)
      : max_queued_(max_queued), max_running_(max_running) {}

  // From any thread.
  //
  // Ok, or why a submission would be refused now. A refusal is counted.
  Status Admit();
  // Hands the submission to the loop, or refuses it as Admit() does. A realtime one interrupts the step under
  // way, if that is one that may be and it is worth it as of the submission's arrival.
  Status Submit(Submission submission);
  void CountRejected();
  // Ignored for sequences that have ended or are being cancelled already, so there is at most one per
  // sequence.
  void Cancel(SequenceId sequence, Status why);
  // Refuses from now on and ends the loop.
  void Stop();
  // Ok, or why the engine can do no more work.
  Status Broken() const;
  EngineStats Stats() const;
  std::int32_t Live() const;
  // Live, and not scheduled yet.
  bool IsQueued(SequenceId sequence) const;

  // Tells the runner of the step under way that a realtime submission interrupts it.
  const StepInterrupt& interrupt() const { return interrupt_; }

  // From the step loop. A step computes from BeginStep() to EndStep() that realtime submissions may
  // interrupt, those that came after the last Take() among them: its plan does not know them.
  void BeginStep(const InterruptibleStep& step, TimePoint now);
  void EndStep();
  // Replaces the contents of `mail`.
  void Take(Mail* mail);
  // Returns at once when there is mail; else when some comes or, with a deadline, when `clock` reaches it.
  void Wait(const Clock& clock, std::optional<TimePoint> deadline);
  // The engine can do no more work: from now on Broken() says why, and submissions are refused with
  // `refusal`.
  void Break(Status why, Status refusal);
  // The sequence has been scheduled for the first time.
  void MarkStarted(SequenceId sequence);
  // Makes what the loop did since its last Take() visible, all at once: `stats` (its own part), the
  // submissions taken, and the sequences that ended.
  void Publish(const EngineStats& stats, std::span<const SequenceId> ended);

 private:
  struct LiveEntry {
    bool started = false;
    bool cancelling = false;
  };

  Status AdmitLocked();
  void InterruptLocked(TimePoint now);

  const std::int32_t max_queued_;
  const std::int32_t max_running_;

  mutable std::mutex mutex_;
  std::condition_variable_any mail_came_;
  StepInterrupt interrupt_;
  // All below are guarded by mutex_.
  std::vector<Submission> submissions_;
  std::vector<Cancellation> cancellations_;
  bool realtime_came_ = false;  // there is a realtime one among submissions_
  std::optional<InterruptibleStep> step_;
  std::unordered_map<SequenceId, LiveEntry> live_;
  std::int32_t queued_ = 0;       // live and not started
  std::int32_t unpublished_ = 0;  // accepted and not in published_ yet
  std::int32_t taken_ = 0;        // of those, already with the loop
  std::uint64_t rejected_ = 0;
  Status closed_;
  Status broken_;
  bool stop_ = false;
  EngineStats published_;
};

}  // namespace skipjack
