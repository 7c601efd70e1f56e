// Failing steps, failing rows, and steps that never end.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

using Sink = std::shared_ptr<RecordingSink>;

Sink Submit(Engine& engine, SequenceRequest request) {
  auto sink = std::make_shared<RecordingSink>();
  const Result<SequenceId> id = engine.Submit(std::move(request), sink);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return sink;
}

// Fails the calls to Forward() whose numbers (from 0) lie in [first, last].
std::function<Status(const StepBatch&)> FailCalls(int first, int last) {
  return [=, call = std::make_shared<int>(0)](const StepBatch&) {
    const int number = (*call)++;
    return number >= first && number <= last ? Status::Internal("injected") : Status::Ok();
  };
}

TEST(EngineFailureTest, AStepThatFailsOnceIsRepeatedUnnoticed) {
  EngineSetup setup;
  setup.on_forward = FailCalls(3, 3);
  const auto engine = MakeEngine(setup);
  const Sink sink = Submit(*engine, Request(Prompt(5, 1), 10));
  EXPECT_EQ(sink->Wait().reason, FinishReason::kLength);
  EXPECT_EQ(sink->tokens(), Reference(Prompt(5, 1), 10));
  EXPECT_TRUE(engine->Health().ok());
}

TEST(EngineFailureTest, AStepThatFailsTwiceEndsItsSequencesOnly) {
  StepGate gate;
  gate.Close();
  std::atomic<bool> fail{false};
  EngineSetup setup;
  setup.scheduler.max_sequences = 2;
  setup.on_forward = [&](const StepBatch&) {
    const Status status = gate.Pass();
    return fail ? Status::Internal("injected") : status;
  };
  const auto engine = MakeEngine(setup);
  const Sink first = Submit(*engine, Request(Prompt(5, 1), 10));
  gate.WaitUntilHeld();
  const Sink second = Submit(*engine, Request(Prompt(5, 2), 10));
  const Sink third = Submit(*engine, Request(Prompt(5, 3), 10));
  gate.LetOneThrough();
  gate.WaitUntilHeld();
  fail = true;
  gate.LetOneThrough();
  gate.WaitUntilHeld();  // the second try
  gate.LetOneThrough();
  gate.WaitUntilHeld();  // the step of the third sequence
  fail = false;
  gate.Open();
  for (const Sink& sink : {first, second}) {
    EXPECT_EQ(sink->Wait().reason, FinishReason::kError);
    EXPECT_EQ(sink->Wait().status.code(), StatusCode::kInternal);
    EXPECT_NE(sink->Wait().status.message().find("injected"), std::string::npos);
  }
  EXPECT_EQ(first->Wait().generated_tokens, 1);
  EXPECT_EQ(third->Wait().reason, FinishReason::kLength);
  EXPECT_EQ(third->tokens(), Reference(Prompt(5, 3), 10));
  EXPECT_TRUE(engine->Health().ok());
  EXPECT_EQ(engine->Stats().finished_error, 2u);
  ExpectAllGivenBack(*engine);
}

// What a failed step may have written is never offered as a prefix.
TEST(EngineFailureTest, AFailedStepPublishesNothing) {
  EngineSetup setup;
  setup.on_forward = FailCalls(0, 1);
  const auto engine = MakeEngine(setup);
  const std::vector<TokenId> prompt = Prompt(30, 1);
  EXPECT_EQ(Submit(*engine, Request(prompt, 5))->Wait().reason, FinishReason::kError);
  const Sink again = Submit(*engine, Request(prompt, 5));
  EXPECT_EQ(again->Wait().timings.cached_tokens, 0);
  EXPECT_EQ(again->tokens(), Reference(prompt, 5));
}

TEST(EngineFailureTest, ThreeFailedStepsInARowGiveTheDeviceUp) {
  EngineSetup setup;
  setup.scheduler.max_sequences = 1;
  StepGate gate;
  gate.Close();
  setup.on_forward = [&](const StepBatch&) {
    const Status status = gate.Pass();
    EXPECT_TRUE(status.ok());
    return Status::Internal("the device is gone");
  };
  std::vector<Status> broken;  // written on the step thread, read when that has ended
  setup.on_broken = [&](const Status& why) { broken.push_back(why); };
  auto engine = MakeEngine(setup);
  std::vector<Sink> sinks;
  for (unsigned i = 0; i < 6; ++i) sinks.push_back(Submit(*engine, Request(Prompt(5, i), 5)));
  gate.Open();
  int failed = 0;
  int turned_away = 0;
  for (const Sink& sink : sinks) {
    EXPECT_EQ(sink->Wait().reason, FinishReason::kError);
    failed += sink->Wait().status.code() == StatusCode::kInternal;
    turned_away += sink->Wait().status.code() == StatusCode::kUnavailable;
    EXPECT_EQ(sink->finishes(), 1);
  }
  EXPECT_EQ(failed, 3);  // those whose steps failed; the others may succeed elsewhere
  EXPECT_EQ(turned_away, 3);
  EXPECT_EQ(engine->Health().code(), StatusCode::kInternal);
  EXPECT_NE(engine->Health().message().find("the device is gone"), std::string::npos);
  const auto late = std::make_shared<RecordingSink>();
  const Result<SequenceId> refused = engine->Submit(Request(Prompt(5, 9), 5), late);
  EXPECT_EQ(refused.status(), Status::Unavailable(engine->Health().message()));
  ExpectAllGivenBack(*engine);
  engine.reset();
  EXPECT_EQ(broken, std::vector<Status>{Status::Internal(refused.status().message())});
}

TEST(EngineFailureTest, ASuccessfulStepForgivesEarlierOnes) {
  EngineSetup setup;
  setup.scheduler.max_sequences = 1;
  // Two steps fail, one works, two fail, the rest works.
  setup.on_forward = [call = std::make_shared<int>(0)](const StepBatch&) {
    const int number = (*call)++;
    return number < 4 || (number > 4 && number < 9) ? Status::Internal("injected") : Status::Ok();
  };
  const auto engine = MakeEngine(setup);
  std::vector<FinishReason> reasons;
  for (unsigned i = 0; i < 6; ++i)
    reasons.push_back(Submit(*engine, Request(Prompt(5, i), 1))->Wait().reason);
  EXPECT_EQ(reasons,
            (std::vector<FinishReason>{FinishReason::kError, FinishReason::kError, FinishReason::kLength,
                                       FinishReason::kError, FinishReason::kError, FinishReason::kLength}));
  EXPECT_TRUE(engine->Health().ok());
}

// Puts `value` into the logits of the slice that starts with `marker`.
class PoisonedRow {
 public:
  PoisonedRow(TokenId marker, float value) : marker_(marker), value_(value) {}

  Status OnForward(const StepBatch& batch) {
    poisoned_ = -1;
    std::int32_t row = 0;
    for (const BatchSlice& slice : batch.slices) {
      const bool starts =
          batch.tokens[static_cast<std::size_t>(slice.token_offset)] == marker_ && slice.position == 0;
      if (starts && slice.logits_rows > 0) poisoned_ = row;
      row += slice.logits_rows;
    }
    return Status::Ok();
  }

  void OnLogits(std::int32_t row, std::span<float> logits) const {
    if (row == poisoned_) logits[17] = value_;
  }

 private:
  const TokenId marker_;
  const float value_;
  std::int32_t poisoned_ = -1;
};

TEST(EngineFailureTest, NonFiniteLogitsEndOneSequenceByName) {
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    constexpr TokenId kMarker = 200;
    PoisonedRow poison(kMarker, value);
    StepGate gate;
    gate.Close();
    EngineSetup setup;
    setup.on_forward = [&](const StepBatch& batch) {
      const Status status = gate.Pass();
      return status.ok() ? poison.OnForward(batch) : status;
    };
    setup.on_logits = [&](std::int32_t row, std::span<float> logits) { poison.OnLogits(row, logits); };
    const auto engine = MakeEngine(setup);
    std::vector<TokenId> bad_prompt = Prompt(10, 3);
    bad_prompt[0] = kMarker;
    std::vector<Sink> good;
    for (unsigned i = 0; i < 3; ++i) {
      std::vector<TokenId> prompt = Prompt(7, i);
      prompt[0] = static_cast<TokenId>(i);
      good.push_back(Submit(*engine, Request(prompt, 10)));
    }
    const Sink bad = Submit(*engine, Request(bad_prompt, 10));
    gate.Open();
    const FinishEvent finish = bad->Wait();
    EXPECT_EQ(finish.reason, FinishReason::kError);
    EXPECT_EQ(finish.status.code(), StatusCode::kInternal);
    EXPECT_NE(finish.status.message().find("non-finite logits"), std::string::npos);
    EXPECT_EQ(finish.generated_tokens, 0);
    for (unsigned i = 0; i < 3; ++i) {
      std::vector<TokenId> prompt = Prompt(7, i);
      prompt[0] = static_cast<TokenId>(i);
      EXPECT_EQ(good[i]->Wait().reason, FinishReason::kLength);
      EXPECT_EQ(good[i]->tokens(), Reference(prompt, 10));
    }
    EXPECT_EQ(engine->Stats().non_finite_logits, 1u);
    EXPECT_EQ(engine->Stats().finished_error, 1u);
    // Its KV is not to be trusted, so nobody gets it as a prefix.
    EXPECT_EQ(Submit(*engine, Request(bad_prompt, 1))->Wait().timings.cached_tokens, 0);
    EXPECT_TRUE(engine->Health().ok());
    ExpectAllGivenBack(*engine);
  }
}

TEST(EngineFailureTest, ARequestThatForbidsEverythingFailsAlone) {
  const auto engine = MakeEngine({});
  SequenceRequest request = Request(Prompt(5, 1), 10);
  for (TokenId token = 0; token < kVocabulary; ++token) request.sampling.stop_token_ids.push_back(token);
  request.sampling.min_tokens = 1;
  EXPECT_EQ(Submit(*engine, std::move(request))->Wait().status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(engine->Stats().non_finite_logits, 0u);
  EXPECT_EQ(Submit(*engine, Request(Prompt(5, 1), 10))->Wait().reason, FinishReason::kLength);
}

TEST(EngineFailureTest, AStalledStepShowsInHealthUntilItEnds) {
  ManualClock clock;
  StepGate gate;
  gate.Close();
  EngineSetup setup;
  setup.clock = &clock;
  setup.watchdog = std::chrono::seconds(30);
  setup.on_forward = [&](const StepBatch&) { return gate.Pass(); };
  const auto engine = MakeEngine(setup);
  clock.Advance(std::chrono::hours(5));
  EXPECT_TRUE(engine->Health().ok());  // no work, no stall
  const Sink sink = Submit(*engine, Request(Prompt(5, 1), 3));
  gate.WaitUntilHeld();
  clock.Advance(std::chrono::seconds(30));
  EXPECT_TRUE(engine->Health().ok());
  clock.Advance(std::chrono::seconds(1));
  EXPECT_EQ(engine->Health().code(), StatusCode::kUnavailable);
  EXPECT_NE(engine->Health().message().find("no step has ended"), std::string::npos);
  gate.LetOneThrough();
  gate.WaitUntilHeld();
  EXPECT_TRUE(engine->Health().ok());
  gate.Open();
  sink->Wait();
  clock.Advance(std::chrono::hours(5));
  EXPECT_TRUE(engine->Health().ok());
}

// A machine on which a full step takes 40 s is slow, not stalled.
TEST(EngineFailureTest, TheLongestStepSetsTheWatchdogsPatience) {
  ManualClock clock;
  StepGate gate;
  std::atomic<int> step_seconds{40};
  EngineSetup setup;
  setup.clock = &clock;
  setup.watchdog = std::chrono::seconds(30);
  setup.on_forward = [&](const StepBatch&) {
    clock.Advance(std::chrono::seconds(step_seconds));
    return gate.Pass();
  };
  const auto engine = MakeEngine(setup);
  Submit(*engine, Request(Prompt(5, 1), 1))->Wait();
  EXPECT_DOUBLE_EQ(engine->Stats().longest_step_seconds, 40.0);
  step_seconds = 0;
  gate.Close();
  const Sink sink = Submit(*engine, Request(Prompt(5, 2), 1));
  gate.WaitUntilHeld();
  clock.Advance(std::chrono::seconds(400));
  EXPECT_TRUE(engine->Health().ok());
  clock.Advance(std::chrono::seconds(1));
  EXPECT_NE(engine->Health().message().find("the limit is 400"), std::string::npos);
  gate.Open();
  sink->Wait();
}

}  // namespace
}  // namespace skipjack::testing
