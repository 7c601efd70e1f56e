// The step loop: one thread that takes mail, plans, runs, samples, hands out tokens, and ends sequences.
//
// Threads: everything here belongs to the loop's thread, except what is said to be for others. The scheduler
// alone is also read by the watchdog's thread, when it dumps a stall; scheduler_mutex_ is held around each
// use of it and never while a step computes or a sink is called.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/model_runner.h"
#include "base/clock.h"
#include "base/status.h"
#include "engine/copy_thread.h"
#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/interrupt_budget.h"
#include "engine/live_sequence.h"
#include "engine/preemption_log.h"
#include "engine/step_sampler.h"
#include "engine/step_watchdog.h"
#include "sched/scheduler.h"

namespace skipjack {

class StepLoop {
 public:
  struct Parts {
    std::unique_ptr<ModelRunner> runner;
    std::unique_ptr<Scheduler> scheduler;
    std::shared_ptr<EngineObserver> observer;  // never null
    const Clock* clock = nullptr;
  };

  StepLoop(Parts parts, const EngineOptions& options);

  // For other threads.
  Inbox& inbox() { return inbox_; }
  const Inbox& inbox() const { return inbox_; }
  Status Health() const;
  std::string DebugString() const;
  std::optional<SequenceExplanation> Explain(SequenceId sequence) const;

  // At most once, before Run() and on any thread: computes a step as large as `budget` allows (see
  // step_loop_warm_up.cc).
  Status WarmUp(Duration budget);
  // The loop's thread runs this until Inbox::Stop(). Every sequence has had its OnFinish when it returns.
  void Run();

 private:
  struct Ending {
    std::unique_ptr<LiveSequence> sequence;
    FinishEvent event;
    double total_seconds = 0;
  };

  void TakeMail();
  void Admit(Submission submission);
  void ExpireDeadlines();
  void WaitForWork();

  // One step, from the plan to the sinks.
  void RunStep();
  void NoteScheduled(TimePoint now);
  void StartCopies();
  void FinishCopies();
  void BuildBatch();
  void AllowInterrupts(TimePoint now);
  Result<StepLogits> Compute();
  // The step was interrupted.
  void DropStep(TimePoint start);
  void FailStep(const Status& why);
  void GiveUp(const Status& why);
  void CollectRows();
  void DeliverRows();
  void DeliverRow(SampledRow* row, LiveSequence* sequence, TimePoint now);
  void NoteToken(LiveSequence* sequence, TimePoint now);
  void NoteStepTime(Duration time);

  // step_loop_explain.cc
  void NotePreemptions(TimePoint now);
  void NoteArrival(LiveSequence* sequence, std::int32_t position, TimePoint now);
  // Of a sequence with a timeline.
  void NoteLevel(LiveSequence* sequence);
  void NoteLevels();
  void LogLongWait(TimePoint now);

  // A step of about `tokens` tokens; `time` is what it took. Returns how many it had.
  Result<std::int32_t> RunWarmUpStep(std::int32_t tokens, Duration* time);
  void PlanWarmUpStep(std::int32_t tokens);
  void ReserveForLargestStep();

  // The one place where a sequence ends. Its sink hears of it in Settle(), when the scheduler has given back
  // what it held and the published state says so.
  void End(SequenceId sequence, FinishReason reason, Status status);
  // The same, where the scheduler does not hear of it through an outcome.
  void Abort(SequenceId sequence, Status why);
  void AbortAll(const Status& why);
  void Settle();

  LiveSequence* Find(SequenceId sequence);
  void LogStall(Duration stalled);

  const Clock& clock_;
  const SchedulerConfig config_;
  const Duration watchdog_floor_;
  const Duration interrupt_threshold_;
  const std::function<void(const Status&)> on_broken_;
  const std::unique_ptr<ModelRunner> runner_;
  const std::shared_ptr<EngineObserver> observer_;
  const std::unique_ptr<CopyThread> copy_thread_;  // null without tiers to copy to
  StepSampler sampler_;
  Inbox inbox_;

  mutable std::mutex scheduler_mutex_;
  const std::unique_ptr<Scheduler> scheduler_;  // guarded by scheduler_mutex_

  std::unordered_map<SequenceId, std::unique_ptr<LiveSequence>> live_;
  std::set<std::pair<TimePoint, SequenceId>> deadlines_;
  EngineStats stats_;
  int failed_steps_ = 0;  // in a row
  InterruptBudget interrupts_;
  PreemptionLog preemption_log_;
  TimePoint next_wait_line_{};
  std::int32_t timelines_ = 0;  // of live sequences

  // Reused from step to step, and made for the largest one.
  Mail mail_;
  StepPlan plan_;
  StepResult result_;
  CopyReport copies_before_;  // of this step
  CopyReport copies_beside_;
  bool copy_failure_logged_ = false;
  std::vector<BatchSlice> slices_;
  std::vector<SampledRow> rows_;  // as many as a step can have
  std::size_t row_count_ = 0;     // of this step
  std::int32_t step_prompt_tokens_ = 0;
  std::int32_t step_decode_tokens_ = 0;
  bool step_has_realtime_ = false;
  bool step_has_others_ = false;
  std::vector<Ending> endings_;
  std::vector<SequenceId> ended_ids_;

  StepWatchdog watchdog_;  // last: its thread uses the others
};

}  // namespace skipjack
