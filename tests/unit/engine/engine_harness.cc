#include "tests/unit/engine/engine_harness.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace skipjack::testing {

bool RecordingSink::OnToken(const TokenEvent& event) {
  {
    std::lock_guard guard(mutex_);
    if (finish_ || event.index != static_cast<std::int32_t>(events_.size())) disordered_ = true;
    events_.push_back(event);
  }
  changed_.notify_all();
  return on_token_ ? on_token_(event) : false;
}

void RecordingSink::OnFinish(const FinishEvent& event) {
  {
    std::lock_guard guard(mutex_);
    finish_ = event;
    ++finishes_;
  }
  changed_.notify_all();
}

FinishEvent RecordingSink::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return finish_.has_value(); });
  return *finish_;
}

void RecordingSink::WaitForTokens(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return events_.size() >= count || finish_; });
}

std::vector<TokenId> RecordingSink::tokens() const {
  std::lock_guard guard(mutex_);
  std::vector<TokenId> tokens;
  for (const TokenEvent& event : events_) tokens.push_back(event.token.token);
  return tokens;
}

std::vector<TokenEvent> RecordingSink::events() const {
  std::lock_guard guard(mutex_);
  return events_;
}

int RecordingSink::finishes() const {
  std::lock_guard guard(mutex_);
  return finishes_;
}

bool RecordingSink::disordered() const {
  std::lock_guard guard(mutex_);
  return disordered_;
}

Status StepGate::Pass() {
  std::unique_lock lock(mutex_);
  if (!closed_) return Status::Ok();
  held_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !closed_ || passes_ > 0; });
  if (passes_ > 0) --passes_;
  held_ = false;
  return Status::Ok();
}

void StepGate::Close() {
  std::lock_guard guard(mutex_);
  closed_ = true;
}

void StepGate::WaitUntilHeld() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return held_ && passes_ == 0; });
}

void StepGate::LetOneThrough() {
  std::lock_guard guard(mutex_);
  ++passes_;
  held_ = false;
  changed_.notify_all();
}

void StepGate::Open() {
  std::lock_guard guard(mutex_);
  closed_ = false;
  changed_.notify_all();
}

Result<std::unique_ptr<Engine>> TryMakeEngine(const EngineSetup& setup) {
  FakeRunnerOptions runner;
  runner.vocabulary = kVocabulary;
  runner.limits = {.block_tokens = setup.scheduler.block_tokens,
                   .kv_blocks = setup.scheduler.kv_blocks,
                   .host_blocks = setup.scheduler.host_blocks,
                   .max_step_tokens = setup.scheduler.max_batch_tokens,
                   .max_slices = setup.scheduler.max_sequences,
                   .max_logits_rows = setup.scheduler.max_sequences,
                   .context_length = setup.scheduler.context_length};
  runner.on_forward = setup.on_forward;
  runner.on_logits = setup.on_logits;
  runner.threads = 3;
  EngineOptions options;
  options.scheduler = setup.scheduler;
  options.max_sampled_id = setup.max_sampled_id;
  options.watchdog = setup.watchdog;
  options.clock = setup.clock;
  options.warm_up = setup.warm_up;
  options.max_interrupted_part = setup.max_interrupted_part;
  options.interrupt_threshold = setup.interrupt_threshold;
  options.on_broken = setup.on_broken;
  options.record = setup.record;
  return Engine::Create(CreateFakeRunner(runner), options, setup.observer);
}

std::unique_ptr<Engine> MakeEngine(const EngineSetup& setup) {
  Result<std::unique_ptr<Engine>> engine = TryMakeEngine(setup);
  if (!engine.ok()) {
    ADD_FAILURE() << engine.status().ToString();
    std::abort();
  }
  return *std::move(engine);
}

SequenceRequest Request(std::vector<TokenId> prompt, std::int32_t max_tokens) {
  SequenceRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0.0f;
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<TokenId> Reference(std::vector<TokenId> prompt, std::int32_t count) {
  std::vector<TokenId> generated;
  for (std::int32_t i = 0; i < count; ++i) {
    generated.push_back(FakeNextToken(prompt, kVocabulary));
    prompt.push_back(generated.back());
  }
  return generated;
}

std::vector<TokenId> Prompt(std::size_t length, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> prompt(length);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % kVocabulary);
  return prompt;
}

void ExpectAllGivenBack(const Engine& engine) {
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(engine.Live(), 0);
  EXPECT_EQ(stats.pending_submissions, 0);
  EXPECT_EQ(stats.scheduler.waiting, 0);
  EXPECT_EQ(stats.scheduler.running, 0);
  EXPECT_EQ(stats.scheduler.swapped, 0);
  EXPECT_EQ(stats.scheduler.blocks_used, 0);
  EXPECT_EQ(stats.scheduler.blocks_free + stats.scheduler.blocks_cached, stats.scheduler.blocks_total);
}

}  // namespace skipjack::testing
