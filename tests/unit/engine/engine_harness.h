// An engine over the fake runner, a gate that holds its steps, and sinks that remember what they were told.
// Tests wait for events, never for time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/fake/fake_runner.h"
#include "base/clock.h"
#include "engine/engine.h"

namespace skipjack::testing {

inline constexpr std::int32_t kVocabulary = 256;

class RecordingSink final : public SequenceSink {
 public:
  // `on_token` may be empty; its result is OnToken()'s.
  explicit RecordingSink(std::function<bool(const TokenEvent&)> on_token = {})
      : on_token_(std::move(on_token)) {}

  bool OnToken(const TokenEvent& event) override;
  void OnFinish(const FinishEvent& event) override;

  // Waits for OnFinish.
  FinishEvent Wait();
  // Waits until this many tokens came, or the end.
  void WaitForTokens(std::size_t count);
  std::vector<TokenId> tokens() const;
  std::vector<TokenEvent> events() const;
  int finishes() const;
  // A token came after OnFinish, or indices were not 0, 1, 2, ...
  bool disordered() const;

 private:
  const std::function<bool(const TokenEvent&)> on_token_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenEvent> events_;
  std::optional<FinishEvent> finish_;
  int finishes_ = 0;
  bool disordered_ = false;
};

// Holds the step thread inside Forward().
class StepGate {
 public:
  // The hook for FakeRunnerOptions::on_forward.
  Status Pass();
  // From the next step on, steps stop at the gate.
  void Close();
  // Waits until a step stands at the gate.
  void WaitUntilHeld();
  // Lets the step that stands there go on, and holds the next one.
  void LetOneThrough();
  void Open();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  bool held_ = false;
  int passes_ = 0;
};

struct EngineSetup {
  SchedulerConfig scheduler = {.policy = "fcfs",
                               .max_batch_tokens = 32,
                               .max_sequences = 8,
                               .max_queued = 1000,
                               .block_tokens = 4,
                               .kv_blocks = 256,
                               .context_length = 128,
                               .prefix_cache = true};
  std::int32_t max_sampled_id = 0;
  Duration watchdog = std::chrono::hours(1);
  const Clock* clock = nullptr;
  std::function<Status(const StepBatch&)> on_forward;
  std::function<void(std::int32_t row, std::span<float> logits)> on_logits;
  std::shared_ptr<EngineObserver> observer;
  Duration warm_up{};
  double max_interrupted_part = 0.1;
  Duration interrupt_threshold = std::chrono::milliseconds(5);
  std::function<void(const Status&)> on_broken;
  std::string record;
};

Result<std::unique_ptr<Engine>> TryMakeEngine(const EngineSetup& setup);
// Aborts the test when the engine cannot be created.
std::unique_ptr<Engine> MakeEngine(const EngineSetup& setup);

// Greedy, without end tokens.
SequenceRequest Request(std::vector<TokenId> prompt, std::int32_t max_tokens);

// What the fake model answers, computed without any engine.
std::vector<TokenId> Reference(std::vector<TokenId> prompt, std::int32_t count);

// `length` tokens that differ from seed to seed.
std::vector<TokenId> Prompt(std::size_t length, unsigned seed);

// Nothing lives and the pool is whole. No waiting: this holds from the moment the last sink hears OnFinish.
void ExpectAllGivenBack(const Engine& engine);

}  // namespace skipjack::testing
