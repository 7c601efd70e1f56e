// The ways a sequence ends by itself, what its events say, and what the observer hears.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

struct Outcome {
  FinishEvent finish;
  std::vector<TokenEvent> events;
};

Outcome RunToEnd(Engine& engine, SequenceRequest request,
                 std::function<bool(const TokenEvent&)> on_token = {}) {
  const auto sink = std::make_shared<RecordingSink>(std::move(on_token));
  const Result<SequenceId> id = engine.Submit(std::move(request), sink);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  Outcome outcome;
  outcome.finish = sink->Wait();
  outcome.events = sink->events();
  EXPECT_FALSE(sink->disordered());
  ExpectAllGivenBack(engine);
  return outcome;
}

TEST(EngineEndTest, MaxTokensOfOne) {
  const auto engine = MakeEngine({});
  const Outcome outcome = RunToEnd(*engine, Request(Prompt(9, 1), 1));
  EXPECT_EQ(outcome.finish.reason, FinishReason::kLength);
  EXPECT_EQ(outcome.finish.generated_tokens, 1);
  EXPECT_EQ(outcome.events.size(), 1u);
}

TEST(EngineEndTest, TheWholeContext) {
  const auto engine = MakeEngine({});
  const std::vector<TokenId> prompt = Prompt(100, 1);
  const Outcome outcome = RunToEnd(*engine, Request(prompt, 28));
  EXPECT_EQ(outcome.finish.reason, FinishReason::kLength);
  EXPECT_EQ(outcome.finish.generated_tokens, 28);
}

TEST(EngineEndTest, EndTokensAndStopIds) {
  const auto engine = MakeEngine({});
  const std::vector<TokenId> prompt = Prompt(4, 2);
  const std::vector<TokenId> reference = Reference(prompt, 10);
  const auto expected = static_cast<std::size_t>(std::find(reference.begin(), reference.end(), reference[6]) -
                                                 reference.begin() + 1);
  for (const bool as_stop_id : {false, true}) {
    SequenceRequest request = Request(prompt, 50);
    if (as_stop_id) {
      request.sampling.stop_token_ids = {reference[6]};
    } else {
      request.end_tokens = {reference[6]};
    }
    const Outcome outcome = RunToEnd(*engine, std::move(request));
    EXPECT_EQ(outcome.finish.reason, FinishReason::kStop);
    EXPECT_TRUE(outcome.finish.status.ok());
    ASSERT_EQ(outcome.events.size(), expected);
    EXPECT_EQ(outcome.finish.generated_tokens, static_cast<std::int32_t>(expected));
    for (std::size_t i = 0; i + 1 < expected; ++i) EXPECT_FALSE(outcome.events[i].ends_text);
    EXPECT_TRUE(outcome.events.back().ends_text);
  }
}

TEST(EngineEndTest, IgnoreEosGoesOnToMaxTokens) {
  const auto engine = MakeEngine({});
  const std::vector<TokenId> prompt = Prompt(4, 2);
  SequenceRequest request = Request(prompt, 64);
  request.end_tokens = Reference(prompt, 20);
  request.sampling.ignore_eos = true;
  const Outcome outcome = RunToEnd(*engine, std::move(request));
  EXPECT_EQ(outcome.finish.reason, FinishReason::kLength);
  EXPECT_EQ(outcome.finish.generated_tokens, 64);
  for (const TokenEvent& event : outcome.events) EXPECT_FALSE(event.ends_text);
}

TEST(EngineEndTest, MinTokensHoldsEndTokensBack) {
  const auto engine = MakeEngine({});
  const std::vector<TokenId> prompt = Prompt(4, 2);
  SequenceRequest request = Request(prompt, 64);
  for (TokenId token = 0; token < kVocabulary / 2; ++token) request.end_tokens.push_back(token);
  request.sampling.min_tokens = 12;
  const Outcome outcome = RunToEnd(*engine, std::move(request));
  EXPECT_EQ(outcome.finish.reason, FinishReason::kStop);
  EXPECT_GT(outcome.finish.generated_tokens, 12);
  for (std::size_t i = 0; i < 12; ++i) EXPECT_GE(outcome.events[i].token.token, kVocabulary / 2);
}

TEST(EngineEndTest, ASinkThatMatchedAStopStringEndsTheSequence) {
  const auto engine = MakeEngine({});
  const Outcome outcome =
      RunToEnd(*engine, Request(Prompt(4, 2), 64), [](const TokenEvent& event) { return event.index == 4; });
  EXPECT_EQ(outcome.finish.reason, FinishReason::kStop);
  EXPECT_EQ(outcome.finish.generated_tokens, 5);
}

// A stop that falls on the last allowed token is a stop.
TEST(EngineEndTest, StopBeatsLength) {
  const auto engine = MakeEngine({});
  const Outcome outcome =
      RunToEnd(*engine, Request(Prompt(4, 2), 5), [](const TokenEvent& event) { return event.index == 4; });
  EXPECT_EQ(outcome.finish.reason, FinishReason::kStop);
  EXPECT_EQ(outcome.finish.generated_tokens, 5);
}

// Counts what it hears; only read when nothing lives.
class CountingObserver final : public EngineObserver {
 public:
  void OnStep(double seconds, std::int32_t prompt, std::int32_t decode) override {
    step_seconds.push_back(seconds);
    prompt_tokens += prompt;
    decode_tokens += decode;
  }
  void OnToken(double gap_seconds) override { gaps.push_back(gap_seconds); }
  void OnFirstToken(double ttft_seconds, double queue_seconds) override {
    ttft.push_back(ttft_seconds);
    queue.push_back(queue_seconds);
  }
  void OnFinish(const FinishEvent& event, double total_seconds) override {
    finishes.push_back(event);
    totals.push_back(total_seconds);
  }

  std::int32_t prompt_tokens = 0, decode_tokens = 0;
  std::vector<double> step_seconds, gaps, ttft, queue, totals;
  std::vector<FinishEvent> finishes;
};

// A prompt of 40 in two chunks, four tokens; every step takes two seconds by the hand-turned clock.
TEST(EngineEndTest, TimingsAndObserver) {
  ManualClock clock;
  const auto observer = std::make_shared<CountingObserver>();
  EngineSetup setup;
  setup.clock = &clock;
  setup.watchdog = std::chrono::hours(1);
  setup.observer = observer;
  setup.on_forward = [&](const StepBatch&) {
    clock.Advance(std::chrono::seconds(2));
    return Status::Ok();
  };
  auto engine = MakeEngine(setup);
  const Outcome outcome = RunToEnd(*engine, Request(Prompt(40, 1), 4));
  const Timings& timings = outcome.finish.timings;
  EXPECT_DOUBLE_EQ(timings.queue_seconds, 0.0);
  EXPECT_DOUBLE_EQ(timings.prefill_seconds, 4.0);
  EXPECT_DOUBLE_EQ(timings.decode_seconds, 6.0);
  engine.reset();
  EXPECT_EQ(observer->prompt_tokens, 40);
  EXPECT_EQ(observer->decode_tokens, 3);
  EXPECT_EQ(observer->step_seconds, std::vector<double>(5, 2.0));
  EXPECT_EQ(observer->ttft, (std::vector<double>{4.0}));
  EXPECT_EQ(observer->queue, (std::vector<double>{0.0}));
  EXPECT_EQ(observer->gaps, (std::vector<double>{2.0, 2.0, 2.0}));
  EXPECT_EQ(observer->totals, (std::vector<double>{10.0}));
  ASSERT_EQ(observer->finishes.size(), 1u);
  EXPECT_EQ(observer->finishes[0].generated_tokens, 4);
}

// With one seat, the second waits for the first: four steps of two seconds.
TEST(EngineEndTest, QueueTimeOfAWaitingSequence) {
  ManualClock clock;
  StepGate gate;
  gate.Close();
  EngineSetup setup;
  setup.clock = &clock;
  setup.scheduler.max_sequences = 1;
  setup.on_forward = [&](const StepBatch&) {
    const Status status = gate.Pass();
    clock.Advance(std::chrono::seconds(2));
    return status;
  };
  const auto engine = MakeEngine(setup);
  const auto first = std::make_shared<RecordingSink>();
  const auto second = std::make_shared<RecordingSink>();
  ASSERT_TRUE(engine->Submit(Request(Prompt(3, 1), 4), first).ok());
  gate.WaitUntilHeld();
  ASSERT_TRUE(engine->Submit(Request(Prompt(3, 2), 1), second).ok());
  gate.Open();
  EXPECT_DOUBLE_EQ(second->Wait().timings.queue_seconds, 8.0);
  EXPECT_DOUBLE_EQ(second->Wait().timings.prefill_seconds, 2.0);
  EXPECT_DOUBLE_EQ(second->Wait().timings.decode_seconds, 0.0);
  EXPECT_DOUBLE_EQ(first->Wait().timings.decode_seconds, 6.0);
}

}  // namespace
}  // namespace skipjack::testing
