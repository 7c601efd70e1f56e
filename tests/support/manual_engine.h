// An engine that does nothing by itself: a test plays the step loop and says what happens to each sequence,
// when.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace skipjack::testing {

// Thread-safe. Sinks are called on the thread that plays the step loop, without a lock held.
class ManualEngine final : public Engine {
 public:
  // Decides what Submit() answers; unset: always takes it. Runs on the submitter's thread before anything
  // else.
  std::function<Status(const SequenceRequest&)> on_submit;
  // Runs inside Submit() once the sequence is live: a step loop that is faster than its submitter.
  std::function<void(SequenceId)> on_submitted;
  // Cancelled sequences finish at once, on the thread that cancels; otherwise only when FinishCancelled() is
  // called.
  bool finish_on_cancel = true;
  Status health;

  Result<SequenceId> Submit(SequenceRequest request, std::shared_ptr<SequenceSink> sink) override;
  void Cancel(SequenceId sequence, Status why) override;
  // What SetExplanation() said, of live sequences.
  std::optional<SequenceExplanation> Explain(SequenceId sequence) const override;
  EngineStats Stats() const override;
  Status Health() const override { return health; }
  std::int32_t Live() const override;
  std::string DebugString() const override { return "played by hand\n"; }

  // Returns the ids of the live sequences, in the order of submission, once there are this many.
  std::vector<SequenceId> WaitForSequences(std::size_t count);
  // Returns once this many live sequences have been cancelled and not finished.
  void WaitForCancelled(std::size_t count);
  // Returns once no sequence is live.
  void WaitUntilIdle();
  SequenceRequest RequestOf(SequenceId sequence) const;
  // Why it was cancelled; ok when it was not.
  Status CancelledWith(SequenceId sequence) const;

  // Generates one token; ends the sequence with kStop when its sink says so. True while it goes on.
  bool Generate(SequenceId sequence, TokenId token, bool ends_text = false, float logprob = 0,
                std::vector<TokenLogprob> top = {});
  // One token per byte.
  void Generate(SequenceId sequence, std::string_view bytes);
  void Finish(SequenceId sequence, FinishReason reason, Status status = {}, Timings timings = {},
              std::shared_ptr<const Timeline> timeline = nullptr);
  void FinishCancelled();
  void SetExplanation(SequenceId sequence, SequenceExplanation explanation);

 private:
  struct Sequence {
    SequenceRequest request;
    std::shared_ptr<SequenceSink> sink;
    std::int32_t generated = 0;
    Status cancelled_with;
    bool live = true;
    SequenceExplanation explanation = {};
  };

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<SequenceId, Sequence> sequences_;
  SequenceId last_id_ = 0;
  EngineStats stats_;
};

}  // namespace skipjack::testing
