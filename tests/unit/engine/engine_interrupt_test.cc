// Realtime requests interrupt steps: what is dropped is computed again, and nobody's tokens change.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "engine/interrupt_budget.h"
#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

using Sink = std::shared_ptr<RecordingSink>;
using std::chrono::milliseconds;

Sink Submit(Engine& engine, std::vector<TokenId> prompt, std::int32_t max_tokens,
            PriorityClass priority = PriorityClass::kInteractive) {
  auto sink = std::make_shared<RecordingSink>();
  SequenceRequest request = Request(std::move(prompt), max_tokens);
  request.priority = priority;
  const Result<SequenceId> id = engine.Submit(std::move(request), sink);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return sink;
}

void ExpectAnswer(RecordingSink& sink, const std::vector<TokenId>& prompt, std::int32_t count) {
  EXPECT_EQ(sink.Wait().reason, FinishReason::kLength) << sink.Wait().status.ToString();
  EXPECT_EQ(sink.tokens(), Reference(prompt, count));
  EXPECT_FALSE(sink.disordered());
}

// Steps stand at a gate, where time passes for them; what each step computes is noted.
class EngineInterruptTest : public ::testing::Test {
 protected:
  EngineInterruptTest() {
    setup_.clock = &clock_;
    setup_.on_forward = [this](const StepBatch& batch) {
      const Status status = gate_.Pass();
      tokens_.push_back(batch.tokens.size());
      return status;
    };
    gate_.Close();
  }

  // The step that stands at the gate has stood there for `time`.
  void PassTime(Duration time) { clock_.Advance(time); }

  ManualClock clock_;
  StepGate gate_;
  EngineSetup setup_;
  std::vector<std::size_t> tokens_;  // of each Forward; read when the engine is idle
};

TEST_F(EngineInterruptTest, TheNewcomerIsInTheNextStep) {
  auto engine = MakeEngine(setup_);
  const Sink first = Submit(*engine, Prompt(20, 1), 5);
  gate_.WaitUntilHeld();
  const Sink realtime = Submit(*engine, Prompt(6, 2), 3, PriorityClass::kRealtime);
  PassTime(milliseconds(40));
  gate_.LetOneThrough();
  gate_.WaitUntilHeld();
  EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.interrupted_steps, 1u);
  EXPECT_DOUBLE_EQ(stats.interrupted_seconds, 0.040);
  EXPECT_EQ(stats.steps, 0u);
  EXPECT_EQ(stats.generated_tokens, 0u);
  EXPECT_DOUBLE_EQ(stats.longest_step_seconds, 0.0);
  gate_.Open();
  ExpectAnswer(*realtime, Prompt(6, 2), 3);
  ExpectAnswer(*first, Prompt(20, 1), 5);
  stats = engine->Stats();
  EXPECT_EQ(stats.interrupted_steps, 1u);
  EXPECT_EQ(stats.finished_error, 0u);
  EXPECT_EQ(stats.scheduler.faults, 0u);
  EXPECT_TRUE(engine->Health().ok());
  ExpectAllGivenBack(*engine);
  engine.reset();
  // The dropped step, one with both prompts, four decode steps.
  EXPECT_EQ(tokens_, (std::vector<std::size_t>{20, 26, 2, 2, 1, 1}));
}

// A prompt of many chunks: without the interrupt the newcomer would see a token after its chunk.
TEST_F(EngineInterruptTest, NobodysTokensChangeWhereverItIsInterrupted) {
  setup_.max_interrupted_part = 1;
  for (int at = 0; at < 9; ++at) {
    SCOPED_TRACE(at);
    gate_.Close();
    const auto engine = MakeEngine(setup_);
    const Sink first = Submit(*engine, Prompt(75, 1), 6);
    gate_.WaitUntilHeld();
    const Sink second = Submit(*engine, Prompt(9, 2), 7, PriorityClass::kBatch);
    for (int i = 0; i < at; ++i) {
      gate_.LetOneThrough();
      gate_.WaitUntilHeld();
    }
    const std::size_t before = first->tokens().size() + second->tokens().size();
    const Sink realtime = Submit(*engine, Prompt(11, 3), 1, PriorityClass::kRealtime);
    gate_.LetOneThrough();
    gate_.WaitUntilHeld();
    EXPECT_EQ(first->tokens().size() + second->tokens().size(), before);
    EXPECT_EQ(engine->Stats().interrupted_steps, 1u);
    gate_.Open();
    ExpectAnswer(*realtime, Prompt(11, 3), 1);
    ExpectAnswer(*first, Prompt(75, 1), 6);
    ExpectAnswer(*second, Prompt(9, 2), 7);
    ExpectAllGivenBack(*engine);
  }
}

// Blocks that only a dropped step computed are nobody's prefix.
TEST_F(EngineInterruptTest, ADroppedStepPublishesNothing) {
  const auto engine = MakeEngine(setup_);
  const std::vector<TokenId> prompt = Prompt(24, 1);
  const Sink first = Submit(*engine, prompt, 3);
  gate_.WaitUntilHeld();
  const Sink realtime = Submit(*engine, prompt, 3, PriorityClass::kRealtime);
  gate_.Open();
  ExpectAnswer(*realtime, prompt, 3);
  ExpectAnswer(*first, prompt, 3);
  EXPECT_EQ(engine->Stats().interrupted_steps, 1u);
}

TEST_F(EngineInterruptTest, OnlyRealtimeInterruptsAndNeverItsLike) {
  const auto engine = MakeEngine(setup_);
  const Sink first = Submit(*engine, Prompt(20, 1), 2);
  gate_.WaitUntilHeld();
  const Sink second = Submit(*engine, Prompt(5, 2), 2, PriorityClass::kInteractive);
  gate_.LetOneThrough();
  gate_.WaitUntilHeld();
  EXPECT_EQ(engine->Stats().steps, 1u);
  const Sink third = Submit(*engine, Prompt(5, 3), 3, PriorityClass::kRealtime);
  gate_.LetOneThrough();
  gate_.WaitUntilHeld();  // a step with the third
  EXPECT_EQ(engine->Stats().interrupted_steps, 1u);
  const Sink fourth = Submit(*engine, Prompt(5, 4), 2, PriorityClass::kRealtime);
  gate_.Open();
  for (const Sink& sink : {first, second, third, fourth}) sink->Wait();
  EXPECT_EQ(engine->Stats().interrupted_steps, 1u);
}

TEST_F(EngineInterruptTest, NeverWhereItIsOffOrWouldNotHelp) {
  for (const bool off : {true, false}) {
    setup_.max_interrupted_part = off ? 0 : 1;
    setup_.scheduler.policy = off ? "fcfs" : "request";  // whose batches nobody joins
    gate_.Close();
    const auto engine = MakeEngine(setup_);
    const Sink first = Submit(*engine, Prompt(20, 1), 2);
    gate_.WaitUntilHeld();
    const Sink realtime = Submit(*engine, Prompt(5, 3), 3, PriorityClass::kRealtime);
    gate_.Open();
    ExpectAnswer(*first, Prompt(20, 1), 2);
    ExpectAnswer(*realtime, Prompt(5, 3), 3);
    EXPECT_EQ(engine->Stats().interrupted_steps, 0u);
  }
}

TEST_F(EngineInterruptTest, NotShortlyBeforeTheStepsExpectedEnd) {
  setup_.scheduler.latency = {.step = 0.1};
  const struct {
    int at_milliseconds;
    std::uint64_t interrupted;
  } cases[] = {{0, 1}, {94, 1}, {97, 0}, {103, 0}, {200, 1}};
  for (const auto& one : cases) {
    SCOPED_TRACE(one.at_milliseconds);
    gate_.Close();
    const auto engine = MakeEngine(setup_);
    const Sink first = Submit(*engine, Prompt(20, 1), 2);
    gate_.WaitUntilHeld();
    PassTime(milliseconds(one.at_milliseconds));
    const Sink realtime = Submit(*engine, Prompt(5, 3), 3, PriorityClass::kRealtime);
    gate_.Open();
    ExpectAnswer(*first, Prompt(20, 1), 2);
    ExpectAnswer(*realtime, Prompt(5, 3), 3);
    EXPECT_EQ(engine->Stats().interrupted_steps, one.interrupted);
  }
}

TEST_F(EngineInterruptTest, AFailedStepMayBeInterruptedAtItsSecondTry) {
  setup_.on_forward = [this, call = std::make_shared<int>(0)](const StepBatch&) {
    const Status status = gate_.Pass();
    return (*call)++ == 0 ? Status::Internal("injected") : status;
  };
  const auto engine = MakeEngine(setup_);
  const Sink first = Submit(*engine, Prompt(20, 1), 4);
  gate_.WaitUntilHeld();
  const Sink realtime = Submit(*engine, Prompt(5, 3), 3, PriorityClass::kRealtime);
  gate_.Open();
  ExpectAnswer(*first, Prompt(20, 1), 4);
  ExpectAnswer(*realtime, Prompt(5, 3), 3);
  EXPECT_EQ(engine->Stats().interrupted_steps, 1u);
  EXPECT_TRUE(engine->Health().ok());
}

TEST_F(EngineInterruptTest, WhoWasCancelledMeanwhileIsNotPlannedAgain) {
  const auto engine = MakeEngine(setup_);
  auto sink = std::make_shared<RecordingSink>();
  const Result<SequenceId> id = engine->Submit(Request(Prompt(20, 1), 4), sink);
  ASSERT_TRUE(id.ok());
  gate_.WaitUntilHeld();
  engine->Cancel(*id, Status::Cancelled("left"));
  const Sink realtime = Submit(*engine, Prompt(5, 3), 3, PriorityClass::kRealtime);
  gate_.Open();
  ExpectAnswer(*realtime, Prompt(5, 3), 3);
  EXPECT_EQ(sink->Wait().reason, FinishReason::kCancelled);
  EXPECT_TRUE(sink->tokens().empty());
  ExpectAllGivenBack(*engine);
}

TEST_F(EngineInterruptTest, StoppingWhileAStepIsInterruptedEndsAll) {
  auto engine = MakeEngine(setup_);
  const Sink first = Submit(*engine, Prompt(20, 1), 4);
  gate_.WaitUntilHeld();
  const Sink realtime = Submit(*engine, Prompt(5, 3), 3, PriorityClass::kRealtime);
  std::thread stop([&] { engine.reset(); });
  gate_.Open();
  stop.join();
  EXPECT_EQ(first->finishes(), 1);
  EXPECT_EQ(realtime->finishes(), 1);
}

// While any step without a realtime sequence computes, another realtime request comes. The seats are few, so
// that realtime steps have nobody else in them.
TEST(EngineInterruptBoundTest, AStreamOfRealtimeRequestsDoesNotKeepOthersFromAdvancing) {
  constexpr TokenId kRealtimeMarker = 250;
  for (const std::int32_t seats : {1, 4}) {
    SCOPED_TRACE(seats);
    EngineSetup setup;
    setup.max_interrupted_part = 1;
    setup.interrupt_threshold = {};  // steps of the fake model end at once
    setup.scheduler.max_sequences = seats;
    std::unique_ptr<Engine> engine;
    std::atomic<bool> others_live{true};
    std::vector<Sink> realtime;
    std::set<TokenId> first_tokens;
    int row = 0;
    int longest_row = 0;
    std::uint64_t drops = 0;
    const std::vector<TokenId> question = {kRealtimeMarker, 1, 2, 3};
    setup.on_forward = [&](const StepBatch& batch) {
      if (!others_live) return Status::Ok();
      for (const BatchSlice& slice : batch.slices) {
        const TokenId token = batch.tokens[static_cast<std::size_t>(slice.token_offset)];
        if (slice.position > 0 || token != kRealtimeMarker) continue;
        if (batch.slices.size() > 1) row = 0;
        return Status::Ok();
      }
      realtime.push_back(Submit(*engine, question, 1, PriorityClass::kRealtime));
      row = batch.IsInterrupted() ? row + 1 : 0;
      drops += batch.IsInterrupted();
      longest_row = std::max(longest_row, row);
      return Status::Ok();
    };
    std::vector<std::vector<TokenId>> prompts;
    for (unsigned i = 0; i < 3; ++i) {
      prompts.push_back(Prompt(20, i));
      prompts.back()[0] = static_cast<TokenId>(i);
    }
    StepGate gate;
    gate.Close();
    const auto inner = setup.on_forward;
    setup.on_forward = [&](const StepBatch& batch) {
      const Status status = gate.Pass();
      return status.ok() ? inner(batch) : status;
    };
    setup.scheduler.prefix_cache = true;
    engine = MakeEngine(setup);
    std::vector<Sink> others;
    for (const auto& prompt : prompts) others.push_back(Submit(*engine, prompt, 12));
    gate.Open();
    for (std::size_t i = 0; i < others.size(); ++i) ExpectAnswer(*others[i], prompts[i], 12);
    others_live = false;
    const std::uint64_t interrupted = engine->Stats().interrupted_steps;
    engine.reset();  // realtime and the counts belong to the step thread until here
    EXPECT_EQ(interrupted, drops);
    EXPECT_GE(drops, 12u);
    // Where realtime steps take the others along, these advance after each drop.
    EXPECT_EQ(longest_row, seats == 1 ? InterruptBudget::kMostInARow : 1);
    for (const Sink& sink : realtime) EXPECT_EQ(sink->finishes(), 1);
  }
}

// Interrupts from another thread at any moment: while a step computes, has just ended, or has not begun.
TEST(EngineInterruptRaceTest, AnyMomentIsHarmless) {
  EngineSetup setup;
  setup.max_interrupted_part = 1;
  setup.interrupt_threshold = {};
  setup.scheduler.kv_blocks = 128;
  const auto engine = MakeEngine(setup);
  const std::vector<TokenId> expected = Reference(Prompt(3, 100), 2);
  std::atomic<bool> stop{false};
  std::thread interrupter([&] {
    while (!stop) {
      const Sink sink = Submit(*engine, Prompt(3, 100), 2, PriorityClass::kRealtime);
      EXPECT_EQ(sink->Wait().reason, FinishReason::kLength);
      EXPECT_EQ(sink->tokens(), expected);
    }
  });
  for (unsigned round = 0; round < 300; ++round) {
    std::vector<Sink> sinks;
    for (unsigned i = 0; i < 5; ++i) sinks.push_back(Submit(*engine, Prompt(5 + 9 * i, round % 7 + i), 8));
    for (unsigned i = 0; i < 5; ++i) ExpectAnswer(*sinks[i], Prompt(5 + 9 * i, round % 7 + i), 8);
  }
  stop = true;
  interrupter.join();
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.finished_error, 0u);
  EXPECT_EQ(stats.scheduler.faults, 0u);
  EXPECT_TRUE(engine->Health().ok());
  ExpectAllGivenBack(*engine);
  RecordProperty("interrupted", std::to_string(stats.interrupted_steps));
}

}  // namespace
}  // namespace skipjack::testing
