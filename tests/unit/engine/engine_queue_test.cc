// Refusals: at once, on the submitter's thread, with both numbers, and without a trace.
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

Status Refusal(Engine& engine, SequenceRequest request) {
  const auto sink = std::make_shared<RecordingSink>();
  const Result<SequenceId> id = engine.Submit(std::move(request), sink);
  EXPECT_FALSE(id.ok());
  EXPECT_EQ(sink->finishes(), 0);
  EXPECT_EQ(sink.use_count(), 1);
  return id.status();
}

TEST(EngineQueueTest, WhatNeverFitsIsRefusedWithBothNumbers) {
  EngineSetup setup;
  setup.scheduler.kv_blocks = 10;
  const auto engine = MakeEngine(setup);
  EXPECT_EQ(Refusal(*engine, Request({}, 5)).code(), StatusCode::kInvalidArgument);
  const Status context = Refusal(*engine, Request(Prompt(100, 1), 29));
  EXPECT_EQ(context.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(context.message(),
            "prompt of 100 tokens plus max_tokens 29 exceeds the context length of 128 tokens");
  const Status pool = Refusal(*engine, Request(Prompt(40, 1), 2));
  EXPECT_EQ(pool.message(), "prompt of 40 tokens plus max_tokens 2 needs 11 KV blocks, the pool has 10");
  EXPECT_EQ(Refusal(*engine, Request(Prompt(4, 1), std::numeric_limits<std::int32_t>::max())).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(engine->Stats().rejected, 4u);
  // The largest that fits.
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(engine->Submit(Request(Prompt(40, 1), 1), sink).ok());
  EXPECT_EQ(sink->Wait().reason, FinishReason::kLength);
}

TEST(EngineQueueTest, AFullQueueRefusesHonestlyAndRecovers) {
  StepGate gate;
  gate.Close();
  EngineSetup setup;
  setup.scheduler.max_sequences = 2;
  setup.scheduler.max_queued = 3;
  setup.on_forward = [&](const StepBatch&) { return gate.Pass(); };
  const auto engine = MakeEngine(setup);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  const auto submit = [&] {
    sinks.push_back(std::make_shared<RecordingSink>());
    return engine->Submit(Request(Prompt(5, static_cast<unsigned>(sinks.size())), 3), sinks.back());
  };
  ASSERT_TRUE(submit().ok());
  gate.WaitUntilHeld();
  ASSERT_TRUE(submit().ok());
  gate.LetOneThrough();
  gate.WaitUntilHeld();  // both run now
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit().ok()) << i;
  const Status full = Refusal(*engine, Request(Prompt(5, 99), 3));
  EXPECT_EQ(full, Status::ResourceExhausted("the queue is full: 3 sequences wait, the limit is 3"));
  EXPECT_EQ(engine->Live(), 5);
  gate.Open();
  for (const auto& sink : sinks) EXPECT_EQ(sink->Wait().reason, FinishReason::kLength);
  ASSERT_TRUE(submit().ok());
  EXPECT_EQ(sinks.back()->Wait().reason, FinishReason::kLength);
  EXPECT_EQ(engine->Stats().rejected, 1u);
  ExpectAllGivenBack(*engine);
}

// What is cancelled while it waits gives its place in the queue back.
TEST(EngineQueueTest, CancelledOnesLeaveTheQueue) {
  StepGate gate;
  gate.Close();
  EngineSetup setup;
  setup.scheduler.max_sequences = 1;
  setup.scheduler.max_queued = 2;
  setup.on_forward = [&](const StepBatch&) { return gate.Pass(); };
  const auto engine = MakeEngine(setup);
  const auto running = std::make_shared<RecordingSink>();
  ASSERT_TRUE(engine->Submit(Request(Prompt(5, 1), 100), running).ok());
  gate.WaitUntilHeld();
  for (unsigned round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<RecordingSink>> waiting;
    for (unsigned i = 0; i < 2; ++i) {
      waiting.push_back(std::make_shared<RecordingSink>());
      const auto id = engine->Submit(Request(Prompt(5, i), 3), waiting.back());
      ASSERT_TRUE(id.ok()) << id.status().ToString();
      engine->Cancel(*id, Status::Cancelled("changed my mind"));
    }
    EXPECT_EQ(Refusal(*engine, Request(Prompt(5, 7), 3)).code(), StatusCode::kResourceExhausted);
    gate.LetOneThrough();
    for (const auto& sink : waiting) EXPECT_EQ(sink->Wait().reason, FinishReason::kCancelled);
    gate.WaitUntilHeld();
  }
  gate.Open();
  EXPECT_EQ(running->Wait().reason, FinishReason::kLength);
  ExpectAllGivenBack(*engine);
}

TEST(EngineQueueTest, TwentyThousandRefusalsThenAGoodOne) {
  const auto engine = MakeEngine({});
  const std::vector<TokenId> too_long = Prompt(200, 1);
  for (int i = 0; i < 20000; ++i) {
    ASSERT_EQ(Refusal(*engine, Request(too_long, 1)).code(), StatusCode::kInvalidArgument);
  }
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(engine->Submit(Request(Prompt(5, 1), 5), sink).ok());
  EXPECT_EQ(sink->Wait().reason, FinishReason::kLength);
  EXPECT_EQ(sink->tokens(), Reference(Prompt(5, 1), 5));
  EXPECT_EQ(engine->Stats().rejected, 20000u);
  ExpectAllGivenBack(*engine);
}

TEST(EngineQueueTest, CreationRefusesNonsense) {
  const auto refusal = [](const EngineOptions& options) {
    FakeRunnerOptions runner;
    runner.limits = {.kv_blocks = 4, .context_length = 64};
    return Engine::Create(CreateFakeRunner(runner), options, nullptr).status();
  };
  EngineOptions good;
  good.scheduler.kv_blocks = 4;
  good.scheduler.context_length = 64;
  EXPECT_EQ(refusal(good), Status::Ok());
  EngineOptions options = good;
  options.scheduler.policy = "lottery";
  EXPECT_NE(refusal(options).message().find("fcfs"), std::string::npos);
  options = good;
  options.scheduler.max_queued = 0;
  EXPECT_EQ(refusal(options).code(), StatusCode::kInvalidArgument);
  options = good;
  options.max_sampled_id = 257;
  EXPECT_EQ(refusal(options).message(), "max_sampled_id must lie in [0, 256], got 257");
  options = good;
  options.watchdog = Duration::zero();
  EXPECT_EQ(refusal(options).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace skipjack::testing
