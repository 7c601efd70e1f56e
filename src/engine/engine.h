// One model replica: a step loop on its own thread, which owns the scheduler and the runner. Submit(),
// Cancel() and Stats() may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/model_runner.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "engine/timeline.h"
#include "sampling/sampling_params.h"
#include "sched/scheduler.h"

namespace skipjack {

enum class FinishReason : std::uint8_t {
  kStop,       // end-of-generation token, stop id or stop string
  kLength,     // max_tokens or the context's end
  kCancelled,  // Cancel(): the client left or the operator ended it
  kError,      // see FinishEvent::status (deadline, non-finite logits, device error, drain)
};

struct Timings {
  double queue_seconds = 0;    // submit until first scheduled
  double prefill_seconds = 0;  // first scheduled until first token
  double decode_seconds = 0;   // first token until last
  std::int32_t cached_tokens = 0;
  std::int32_t preemptions = 0;
};

struct TokenEvent {
  SampledToken token;
  std::int32_t index = 0;  // 0 for the first generated token
  // Set on an end-of-generation or stop-id token: it counts as generated but is not part of the text.
  bool ends_text = false;
};

struct FinishEvent {
  FinishReason reason = FinishReason::kStop;
  Status status;  // not ok exactly when reason is kError or kCancelled
  std::int32_t prompt_tokens = 0;
  std::int32_t generated_tokens = 0;
  Timings timings;
  std::shared_ptr<const Timeline> timeline = {};  // for those who asked for it
};

// Receives one sequence's output. All calls come from the engine's step thread, must return at once and may
// not call back into the engine, except Engine::Cancel.
class SequenceSink {
 public:
  virtual ~SequenceSink() = default;
  // Returns true when the text matched a stop string with this token: the sequence then ends with kStop.
  virtual bool OnToken(const TokenEvent& event) = 0;
  // Exactly once, last. By then everything the sequence held is given back, and Stats() and Live() say so.
  virtual void OnFinish(const FinishEvent& event) = 0;
};

// Checked at the edge: ids below the vocabulary, parameters in range, limits resolved.
struct SequenceRequest {
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::vector<TokenId> end_tokens;  // end-of-generation ids of the model; ignored with sampling.ignore_eos
  std::string tenant;
  std::string cache_salt;
  PriorityClass priority = PriorityClass::kInteractive;
  std::optional<TimePoint> deadline;
  std::string request_id;  // for logs
  bool timeline = false;   // record one, for FinishEvent
};

struct EngineOptions {
  SchedulerConfig scheduler;        // max_queued bounds the sequences that wait for their first step
  std::int32_t max_sampled_id = 0;  // logits rows at or beyond this are masked (padded heads); 0 = no mask
  // A step longer than this, and than ten times the longest before it, dumps state and turns Health() bad.
  Duration watchdog = std::chrono::seconds(30);
  // Of the time, what may be lost to steps that realtime requests interrupt, in [0, 1] (see
  // interrupt_budget.h). 0: steps are never interrupted.
  double max_interrupted_part = 0.1;
  // A step is not interrupted when it is expected to end sooner than this.
  Duration interrupt_threshold = std::chrono::milliseconds(5);
  // How long Create() may compute to warm up; 0: it does not. No counter and no observer hears of it.
  Duration warm_up{};
  // A file, replaced, for what the scheduler is asked (sched/recording.h); empty: none.
  std::string record = {};
  const Clock* clock = nullptr;  // nullptr: the system's
  // Called once, on the step thread, when the device is given up: Health() has turned bad for good.
  std::function<void(const Status&)> on_broken = {};
};

// Histograms are observed by whoever owns metrics; the engine reports what happened, on its own thread.
class EngineObserver {
 public:
  virtual ~EngineObserver() = default;
  virtual void OnStep(double seconds, std::int32_t prompt_tokens, std::int32_t decode_tokens) = 0;
  virtual void OnToken(double gap_seconds) = 0;  // inter-token gap, from a sequence's second token on
  virtual void OnFirstToken(double ttft_seconds, double queue_seconds) = 0;
  virtual void OnFinish(const FinishEvent& event, double total_seconds) = 0;
};

struct EngineStats {
  SchedulerStats scheduler;
  std::int32_t pending_submissions = 0;  // accepted, not yet seen by the step loop
  std::uint64_t steps = 0;
  std::uint64_t interrupted_steps = 0;  // not among `steps`: nothing came of them
  double interrupted_seconds = 0;       // that they took
  double copy_wait_seconds = 0;         // that steps waited for copies of KV blocks
  std::uint64_t prompt_tokens = 0;      // of prompts that have got their first token, cached ones included
  std::uint64_t generated_tokens = 0;
  std::uint64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_error = 0;
  std::uint64_t rejected = 0;
  std::uint64_t non_finite_logits = 0;
  LatencyCoefficients latency;      // what steps take, as learnt so far; all 0: nothing was
  double longest_step_seconds = 0;  // seen, or expected of a full one after the warm-up
};

// A realtime submission interrupts the step under way, if no realtime sequence is in it: the runner drops it
// within a millisecond or so, the newcomer goes into the next plan, and what the step would have computed is
// computed later, from unchanged state. Not when the step is about to end anyway, nor more often than
// InterruptBudget allows. An interrupted step is no failure, and nothing is learnt from it; to the watchdog
// it has ended.
//
// A step that fails is tried once more (steps are idempotent); then its sequences end with INTERNAL and the
// others go on. Three failed steps in a row count as a broken device: every sequence that was in no failed
// step ends with UNAVAILABLE, Health() stays bad (INTERNAL) and new work is refused with UNAVAILABLE, because
// it may well succeed elsewhere.
class Engine {
 public:
  // With options.warm_up, computes a step of the largest size that fits into that time: what the first real
  // ones would have to fetch into memory is there, a model that cannot compute is found, and the watchdog
  // knows how long a full step may take.
  static Result<std::unique_ptr<Engine>> Create(std::unique_ptr<ModelRunner> runner,
                                                const EngineOptions& options,
                                                std::shared_ptr<EngineObserver> observer);
  virtual ~Engine() = default;  // stops the loop; every live sequence gets its OnFinish (UNAVAILABLE)

  // Refusals (never fits, queue full, stopping) come back here at once and the sink hears nothing.
  virtual Result<SequenceId> Submit(SequenceRequest request, std::shared_ptr<SequenceSink> sink) = 0;
  // Ends the sequence within one step, wherever it is. Unknown and finished ids are ignored. `why` ends up in
  // the FinishEvent: kCancelled for CANCELLED, kError for other codes.
  virtual void Cancel(SequenceId sequence, Status why) = 0;

  // Why the sequence waits, runs or was preempted, as the last plan had it. None when it is not live.
  virtual std::optional<SequenceExplanation> Explain(SequenceId sequence) const = 0;

  virtual EngineStats Stats() const = 0;  // a consistent snapshot; takes no step-loop time worth naming
  // False with a reason: a sticky device error, or work waits and no step ended within the watchdog time.
  virtual Status Health() const = 0;
  // Sequences that have not finished.
  virtual std::int32_t Live() const = 0;
  // Several lines for logs: the scheduler's queues and blocks, or that a step is just using them.
  virtual std::string DebugString() const = 0;
};

}  // namespace skipjack
