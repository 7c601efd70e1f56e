// Cancellation, deadlines and the engine's own end reach a sequence wherever it is, within one step.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

using Sink = std::shared_ptr<RecordingSink>;

Sink MakeSink() {
  return std::make_shared<RecordingSink>();
}

SequenceId MustSubmit(Engine& engine, SequenceRequest request, const Sink& sink) {
  const Result<SequenceId> id = engine.Submit(std::move(request), sink);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return id.ok() ? *id : 0;
}

class EngineCancelTest : public ::testing::Test {
 protected:
  EngineCancelTest() {
    setup_.on_forward = [this](const StepBatch&) { return gate_.Pass(); };
    setup_.clock = &clock_;
  }
  ~EngineCancelTest() override { gate_.Open(); }

  // `gate_` holds the first step of `request` when this returns.
  SequenceId SubmitAndHold(Engine& engine, SequenceRequest request, const Sink& sink) {
    gate_.Close();
    const SequenceId id = MustSubmit(engine, std::move(request), sink);
    gate_.WaitUntilHeld();
    return id;
  }

  void Step() {
    gate_.LetOneThrough();
    gate_.WaitUntilHeld();
  }

  ManualClock clock_;
  StepGate gate_;
  EngineSetup setup_;
};

void ExpectCancelled(const Sink& sink, std::size_t tokens) {
  const FinishEvent finish = sink->Wait();
  EXPECT_EQ(finish.reason, FinishReason::kCancelled);
  EXPECT_EQ(finish.status, Status::Cancelled("the client left"));
  EXPECT_EQ(finish.generated_tokens, static_cast<std::int32_t>(tokens));
  EXPECT_EQ(sink->tokens().size(), tokens);
  EXPECT_EQ(sink->finishes(), 1);
}

// The step in flight has computed a token by then; whoever left does not get it.
TEST_F(EngineCancelTest, WhileItsStepComputes) {
  const auto engine = MakeEngine(setup_);
  const Sink sink = MakeSink();
  const SequenceId id = SubmitAndHold(*engine, Request(Prompt(5, 1), 50), sink);
  Step();
  Step();
  engine->Cancel(id, Status::Cancelled("the client left"));
  gate_.Open();
  ExpectCancelled(sink, 2);
  ExpectAllGivenBack(*engine);
}

TEST_F(EngineCancelTest, InTheMiddleOfItsPrompt) {
  setup_.scheduler.max_batch_tokens = 8;
  const auto engine = MakeEngine(setup_);
  const Sink sink = MakeSink();
  const SequenceId id = SubmitAndHold(*engine, Request(Prompt(60, 1), 50), sink);
  Step();
  engine->Cancel(id, Status::Cancelled("the client left"));
  gate_.Open();
  ExpectCancelled(sink, 0);
  ExpectAllGivenBack(*engine);
}

TEST_F(EngineCancelTest, BeforeTheLoopHasSeenIt) {
  const auto engine = MakeEngine(setup_);
  const Sink running = MakeSink();
  const Sink unseen = MakeSink();
  SubmitAndHold(*engine, Request(Prompt(5, 1), 3), running);
  Step();
  const SequenceId id = MustSubmit(*engine, Request(Prompt(5, 2), 50), unseen);
  EXPECT_EQ(engine->Stats().pending_submissions, 1);
  engine->Cancel(id, Status::Cancelled("the client left"));
  gate_.Open();
  ExpectCancelled(unseen, 0);
  EXPECT_EQ(running->Wait().reason, FinishReason::kLength);
  ExpectAllGivenBack(*engine);
}

TEST_F(EngineCancelTest, WaitingForASeat) {
  setup_.scheduler.max_sequences = 1;
  const auto engine = MakeEngine(setup_);
  const Sink running = MakeSink();
  const Sink waiting = MakeSink();
  SubmitAndHold(*engine, Request(Prompt(5, 1), 20), running);
  const SequenceId id = MustSubmit(*engine, Request(Prompt(5, 2), 50), waiting);
  Step();
  Step();
  EXPECT_EQ(engine->Stats().scheduler.waiting, 1);
  engine->Cancel(id, Status::Cancelled("the client left"));
  gate_.LetOneThrough();
  ExpectCancelled(waiting, 0);
  gate_.Open();
  EXPECT_EQ(running->Wait().reason, FinishReason::kLength);
  EXPECT_EQ(running->tokens(), Reference(Prompt(5, 1), 20));
}

TEST_F(EngineCancelTest, WhilePreempted) {
  setup_.scheduler.kv_blocks = 8;  // 32 tokens: two sequences of 24 cannot stay together
  setup_.scheduler.prefix_cache = false;
  const auto engine = MakeEngine(setup_);
  const Sink first = MakeSink();
  const Sink second = MakeSink();
  SubmitAndHold(*engine, Request(Prompt(6, 1), 18), first);
  const SequenceId id = MustSubmit(*engine, Request(Prompt(6, 2), 18), second);
  while (engine->Stats().scheduler.preemptions == 0 && engine->Live() == 2) Step();
  ASSERT_EQ(engine->Stats().scheduler.preemptions, 1u);
  ASSERT_EQ(engine->Live(), 2);
  engine->Cancel(id, Status::Cancelled("the client left"));
  gate_.Open();
  EXPECT_EQ(second->Wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(second->Wait().timings.preemptions, 1);
  EXPECT_EQ(first->Wait().reason, FinishReason::kLength);
  EXPECT_EQ(first->tokens(), Reference(Prompt(6, 1), 18));
  ExpectAllGivenBack(*engine);
}

TEST_F(EngineCancelTest, UnknownFinishedAndRepeatedCancellationsAreIgnored) {
  const auto engine = MakeEngine(setup_);
  engine->Cancel(12345, Status::Cancelled("nobody"));
  const Sink sink = MakeSink();
  const SequenceId done = MustSubmit(*engine, Request(Prompt(5, 1), 2), sink);
  EXPECT_EQ(sink->Wait().reason, FinishReason::kLength);
  engine->Cancel(done, Status::Cancelled("too late"));
  const Sink other = MakeSink();
  const SequenceId id = SubmitAndHold(*engine, Request(Prompt(5, 2), 2), other);
  engine->Cancel(id, Status::Cancelled("the client left"));
  for (int i = 0; i < 1000; ++i) engine->Cancel(id, Status::DeadlineExceeded("again"));
  gate_.Open();
  ExpectCancelled(other, 0);
  EXPECT_EQ(sink->finishes(), 1);
  EXPECT_EQ(engine->Stats().finished_cancelled, 1u);
  EXPECT_EQ(engine->Stats().finished_error, 0u);
}

TEST_F(EngineCancelTest, OtherCodesThanCancelledAreErrors) {
  const auto engine = MakeEngine(setup_);
  const Sink sink = MakeSink();
  const SequenceId id = SubmitAndHold(*engine, Request(Prompt(5, 1), 50), sink);
  engine->Cancel(id, Status::Unavailable("the grace is over"));
  gate_.Open();
  EXPECT_EQ(sink->Wait().reason, FinishReason::kError);
  EXPECT_EQ(sink->Wait().status, Status::Unavailable("the grace is over"));
}

TEST_F(EngineCancelTest, FromInsideOnToken) {
  const auto engine = MakeEngine(setup_);
  std::atomic<SequenceId> id{0};
  const auto sink = std::make_shared<RecordingSink>([&](const TokenEvent& event) {
    if (event.index == 2) engine->Cancel(id, Status::Cancelled("the client left"));
    return false;
  });
  gate_.Close();
  id = MustSubmit(*engine, Request(Prompt(5, 1), 50), sink);
  gate_.Open();
  ExpectCancelled(sink, 3);
  ExpectAllGivenBack(*engine);
}

TEST_F(EngineCancelTest, DeadlineWhileGenerating) {
  const auto engine = MakeEngine(setup_);
  const Sink sink = MakeSink();
  SequenceRequest request = Request(Prompt(5, 1), 50);
  request.deadline = clock_.Now() + std::chrono::seconds(10);
  SubmitAndHold(*engine, std::move(request), sink);
  Step();
  clock_.Advance(std::chrono::seconds(9));
  Step();
  clock_.Advance(std::chrono::seconds(2));
  gate_.Open();
  const FinishEvent finish = sink->Wait();
  EXPECT_EQ(finish.reason, FinishReason::kError);
  EXPECT_EQ(finish.status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(finish.generated_tokens, 3);  // the step that was under way still counts
  EXPECT_NE(finish.status.message().find("3 tokens"), std::string::npos) << finish.status.message();
  ExpectAllGivenBack(*engine);
}

TEST_F(EngineCancelTest, DeadlineWhileWaiting) {
  setup_.scheduler.max_sequences = 1;
  const auto engine = MakeEngine(setup_);
  const Sink running = MakeSink();
  const Sink waiting = MakeSink();
  SubmitAndHold(*engine, Request(Prompt(5, 1), 20), running);
  SequenceRequest request = Request(Prompt(5, 2), 50);
  request.deadline = clock_.Now() + std::chrono::seconds(10);
  MustSubmit(*engine, std::move(request), waiting);
  Step();
  clock_.Advance(std::chrono::seconds(11));
  Step();
  Step();
  EXPECT_EQ(waiting->Wait().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(waiting->Wait().generated_tokens, 0);
  EXPECT_DOUBLE_EQ(waiting->Wait().timings.queue_seconds, 11.0);
  gate_.Open();
  EXPECT_EQ(running->Wait().reason, FinishReason::kLength);
}

TEST_F(EngineCancelTest, DeadlineThatHasPassedAlready) {
  const auto engine = MakeEngine(setup_);
  clock_.Advance(std::chrono::seconds(5));
  SequenceRequest request = Request(Prompt(5, 2), 50);
  request.deadline = clock_.Now() - std::chrono::seconds(1);
  const Sink sink = MakeSink();
  MustSubmit(*engine, std::move(request), sink);
  EXPECT_EQ(sink->Wait().status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(engine->Stats().steps, 0u);
}

TEST_F(EngineCancelTest, DestructionEndsWhoeverLives) {
  setup_.scheduler.max_sequences = 2;
  auto engine = MakeEngine(setup_);
  std::vector<Sink> sinks;
  gate_.Close();
  for (unsigned i = 0; i < 5; ++i) {
    sinks.push_back(MakeSink());
    MustSubmit(*engine, Request(Prompt(5, i), 50), sinks.back());
  }
  gate_.WaitUntilHeld();
  Step();
  Step();
  sinks.push_back(MakeSink());
  MustSubmit(*engine, Request(Prompt(5, 9), 50), sinks.back());  // the loop has not seen this one
  gate_.Open();
  engine.reset();
  for (const Sink& sink : sinks) {
    EXPECT_EQ(sink->finishes(), 1);
    if (sink->Wait().reason == FinishReason::kLength) continue;  // it was quicker
    EXPECT_EQ(sink->Wait().reason, FinishReason::kError);
    EXPECT_EQ(sink->Wait().status.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(sinks.back()->finishes(), 1);
}

// Requests keep a model alive, so the last one to end may drop the engine on the engine's own thread.
TEST_F(EngineCancelTest, TheLastReferenceMayBeDroppedByASink) {
  class OwningSink final : public SequenceSink {
   public:
    OwningSink(std::shared_ptr<Engine> engine, Sink next)
        : engine_(std::move(engine)), next_(std::move(next)) {}
    bool OnToken(const TokenEvent& event) override { return next_->OnToken(event); }
    void OnFinish(const FinishEvent& event) override {
      engine_.reset();
      next_->OnFinish(event);
    }

   private:
    std::shared_ptr<Engine> engine_;
    const Sink next_;
  };
  setup_.clock = nullptr;  // the loop may outlive this test by a moment
  setup_.on_forward = {};
  std::shared_ptr<Engine> engine = MakeEngine(setup_);
  const Sink sink = MakeSink();
  const Sink other = MakeSink();
  const auto owner = std::make_shared<OwningSink>(engine, sink);
  ASSERT_TRUE(engine->Submit(Request(Prompt(5, 1), 2), owner).ok());
  MustSubmit(*engine, Request(Prompt(5, 2), 120), other);
  engine.reset();
  EXPECT_EQ(sink->Wait().reason, FinishReason::kLength);
  EXPECT_EQ(other->Wait().status.code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace skipjack::testing
