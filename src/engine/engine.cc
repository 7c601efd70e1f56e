#include "engine/engine.h"

#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "engine/inbox.h"
#include "engine/step_loop.h"
#include "sched/recording.h"

namespace skipjack {
namespace {

class NoObserver final : public EngineObserver {
 public:
  void OnStep(double, std::int32_t, std::int32_t) override {}
  void OnToken(double) override {}
  void OnFirstToken(double, double) override {}
  void OnFinish(const FinishEvent&, double) override {}
};

class LoopEngine final : public Engine {
 public:
  LoopEngine(std::shared_ptr<StepLoop> loop, const SchedulerConfig& config, const Clock& clock)
      : config_(config),
        clock_(clock),
        loop_(std::move(loop)),
        thread_([shared = loop_] { shared->Run(); }) {}

  // Whoever drops the last reference may be a sink, on the loop's own thread: the loop then ends by itself.
  ~LoopEngine() override {
    loop_->inbox().Stop();
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  Result<SequenceId> Submit(SequenceRequest request, std::shared_ptr<SequenceSink> sink) override {
    Inbox& inbox = loop_->inbox();
    const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
    if (Status status = CheckFits(config_, prompt_tokens, request.sampling.max_tokens); !status.ok()) {
      inbox.CountRejected();
      return status;
    }
    // Asked before the work below, so that a full queue costs little; Inbox::Submit decides.
    if (Status status = inbox.Admit(); !status.ok()) return status;
    const TimePoint now = clock_.Now();
    const SequenceId id = next_id_.fetch_add(1, std::memory_order_relaxed);
    Submission submission;
    submission.sequence = std::make_unique<LiveSequence>(id, request, std::move(sink), now);
    submission.request = {.sequence = id,
                          .prompt = std::move(request.prompt),
                          .max_tokens = request.sampling.max_tokens,
                          .cache_salt = std::move(request.cache_salt),
                          .tenant = std::move(request.tenant),
                          .priority = request.priority,
                          .deadline = request.deadline,
                          .arrival = now};
    if (Status status = inbox.Submit(std::move(submission)); !status.ok()) return status;
    return id;
  }

  void Cancel(SequenceId sequence, Status why) override { loop_->inbox().Cancel(sequence, std::move(why)); }
  std::optional<SequenceExplanation> Explain(SequenceId sequence) const override {
    return loop_->Explain(sequence);
  }
  EngineStats Stats() const override { return loop_->inbox().Stats(); }
  Status Health() const override { return loop_->Health(); }
  std::int32_t Live() const override { return loop_->inbox().Live(); }
  std::string DebugString() const override { return loop_->DebugString(); }

 private:
  const SchedulerConfig config_;
  const Clock& clock_;
  const std::shared_ptr<StepLoop> loop_;
  std::atomic<SequenceId> next_id_{1};
  std::thread thread_;
};

Status CheckOptions(const ModelRunner& runner, const EngineOptions& options) {
  if (options.scheduler.max_queued < 1) {
    return Status::InvalidArgument("max_queued must be at least 1, got " +
                                   std::to_string(options.scheduler.max_queued));
  }
  if (options.max_sampled_id < 0 || options.max_sampled_id > runner.vocabulary()) {
    return Status::InvalidArgument("max_sampled_id must lie in [0, " + std::to_string(runner.vocabulary()) +
                                   "], got " + std::to_string(options.max_sampled_id));
  }
  if (!(options.max_interrupted_part >= 0 && options.max_interrupted_part <= 1)) {
    return Status::InvalidArgument("max_interrupted_part must lie in [0, 1], got " +
                                   std::to_string(options.max_interrupted_part));
  }
  if (options.watchdog <= Duration::zero()) {
    return Status::InvalidArgument("the watchdog's time must be positive, got " +
                                   std::to_string(ToSeconds(options.watchdog)) + " s");
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Create(std::unique_ptr<ModelRunner> runner,
                                               const EngineOptions& options,
                                               std::shared_ptr<EngineObserver> observer) {
  // Never destroyed: an embedder's engines may outlive the other statics.
  static const SystemClock& system_clock = *new SystemClock();
  if (Status status = CheckOptions(*runner, options); !status.ok()) return status;
  // The inbox bounds the queue, on the submitter's thread; what it accepted the scheduler must not refuse.
  SchedulerConfig config = options.scheduler;
  config.max_queued = std::numeric_limits<std::int32_t>::max();
  Result<std::unique_ptr<Scheduler>> scheduler = Scheduler::Create(config);
  if (!scheduler.ok()) return scheduler.status();
  if (!options.record.empty()) {
    auto file = std::make_unique<std::ofstream>(options.record);
    if (!*file) return Status::InvalidArgument("cannot write the recording " + options.record);
    scheduler = RecordScheduler(*std::move(scheduler), config, std::move(file));
  }
  if (!observer) observer = std::make_shared<NoObserver>();
  const Clock* clock = options.clock != nullptr ? options.clock : &system_clock;
  StepLoop::Parts parts = {std::move(runner), *std::move(scheduler), std::move(observer), clock};
  auto loop = std::make_shared<StepLoop>(std::move(parts), options);
  if (options.warm_up > Duration::zero()) {
    const Status status = loop->WarmUp(options.warm_up);
    if (!status.ok()) return Status(status.code(), "the warm-up failed: " + status.message());
  }
  return std::unique_ptr<Engine>(std::make_unique<LoopEngine>(std::move(loop), options.scheduler, *clock));
}

}  // namespace skipjack
