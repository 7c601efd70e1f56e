// Timelines, explanations, and the log of those who wait for long.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

using ::testing::HasSubstr;
using Kind = TimelineEvent::Kind;

SequenceId MustSubmit(Engine& engine, SequenceRequest request, const std::shared_ptr<RecordingSink>& sink) {
  const Result<SequenceId> id = engine.Submit(std::move(request), sink);
  EXPECT_TRUE(id.ok()) << id.status().ToString();
  return id.ok() ? *id : 0;
}

SequenceRequest Timed(SequenceRequest request) {
  request.timeline = true;
  return request;
}

std::vector<Kind> KindsOf(const Timeline& timeline) {
  std::vector<Kind> kinds;
  for (const TimelineEvent& event : timeline.events) kinds.push_back(event.kind);
  return kinds;
}

class EngineExplainTest : public ::testing::Test {
 protected:
  EngineExplainTest() {
    setup_.clock = &clock_;
    setup_.scheduler.max_sequences = 1;
    setup_.max_interrupted_part = 0;
    setup_.on_forward = [this](const StepBatch&) {
      clock_.Advance(step_time_);
      return gate_.Pass();
    };
  }

  ManualClock clock_;
  StepGate gate_;
  Duration step_time_ = std::chrono::seconds(1);
  EngineSetup setup_;
};

// A seat, a second a step. A batch request has its first token when a realtime one takes the seat for two
// steps. Of its 5 tokens one block of 4 survives; it computes the others again.
TEST_F(EngineExplainTest, ATimelineHasEveryTurn) {
  const auto engine = MakeEngine(setup_);
  const auto batch = std::make_shared<RecordingSink>();
  const auto urgent = std::make_shared<RecordingSink>();
  SequenceRequest request = Timed(Request(Prompt(5, 1), 3));
  request.priority = PriorityClass::kBatch;
  gate_.Close();
  MustSubmit(*engine, std::move(request), batch);
  gate_.WaitUntilHeld();
  request = Request(Prompt(5, 2), 2);
  request.priority = PriorityClass::kRealtime;
  MustSubmit(*engine, std::move(request), urgent);
  gate_.Open();
  EXPECT_EQ(urgent->Wait().timeline, nullptr) << "not asked for";
  const auto timeline = batch->Wait().timeline;
  ASSERT_NE(timeline, nullptr);
  const std::vector<TimelineEvent>& events = timeline->events;
  ASSERT_EQ(KindsOf(*timeline), (std::vector<Kind>{Kind::kSubmitted, Kind::kScheduled, Kind::kFirstToken,
                                                   Kind::kPreempted, Kind::kResumed, Kind::kFinished}));
  const std::vector<double> seconds = {0, 0, 1, 1, 3, 5};
  const std::vector<std::int32_t> generated = {0, 0, 1, 1, 1, 3};
  for (std::size_t i = 0; i < events.size(); ++i) {
    EXPECT_DOUBLE_EQ(events[i].seconds, seconds[i]) << i;
    EXPECT_EQ(events[i].tokens_generated, generated[i]) << i;
  }
  EXPECT_EQ(events[3].cause, PreemptionCause::kPriority);
  EXPECT_EQ(events[3].tokens_lost, 5);
  EXPECT_EQ(events[4].tokens_restored, 4);
  EXPECT_EQ(events[4].tokens_recomputed, 1);
  EXPECT_EQ(timeline->left_out, 0);
}

// 10 ms a step and quanta of 10 and 20 ms: level 1 after one step, level 2 after three.
TEST_F(EngineExplainTest, ATimelineHasTheLevels) {
  step_time_ = std::chrono::milliseconds(10);
  setup_.scheduler.policy = "mlfq";
  setup_.scheduler.settings.quantum = step_time_;
  const auto engine = MakeEngine(setup_);
  const auto sink = std::make_shared<RecordingSink>();
  MustSubmit(*engine, Timed(Request(Prompt(1, 1), 5)), sink);
  const auto timeline = sink->Wait().timeline;
  ASSERT_EQ(KindsOf(*timeline), (std::vector<Kind>{Kind::kSubmitted, Kind::kScheduled, Kind::kFirstToken,
                                                   Kind::kLevel, Kind::kLevel, Kind::kFinished}));
  EXPECT_EQ(timeline->events[0].level, 0);
  EXPECT_EQ(timeline->events[3].level, 1);
  EXPECT_DOUBLE_EQ(timeline->events[3].seconds, 0.01);
  EXPECT_EQ(timeline->events[4].level, 2);
  EXPECT_DOUBLE_EQ(timeline->events[4].seconds, 0.03);
}

TEST(Timeline, IsBoundedAndKeepsTheEnds) {
  Timeline timeline;
  const TimelineEvent* const storage = timeline.events.data();
  for (int i = 0; i < 100; ++i) timeline.Add({.kind = Kind::kLevel});
  timeline.Add({.kind = Kind::kFirstToken});
  timeline.Add({.kind = Kind::kFinished});
  ASSERT_EQ(timeline.events.size(), Timeline::kMostEvents);
  EXPECT_EQ(timeline.events[62].kind, Kind::kFirstToken);
  EXPECT_EQ(timeline.events[63].kind, Kind::kFinished);
  EXPECT_EQ(timeline.left_out, 38);
  EXPECT_EQ(timeline.events.data(), storage) << "nothing was allocated";
}

TEST_F(EngineExplainTest, ExplainsWhileAStepComputes) {
  const auto engine = MakeEngine(setup_);
  const auto first = std::make_shared<RecordingSink>();
  const auto second = std::make_shared<RecordingSink>();
  gate_.Close();
  const SequenceId runs = MustSubmit(*engine, Request(Prompt(5, 1), 4), first);
  gate_.WaitUntilHeld();
  EXPECT_EQ(engine->Explain(runs)->phase, SequenceExplanation::Phase::kPrefilling);
  EXPECT_EQ(engine->Explain(runs)->scheduled, 5);
  EXPECT_FALSE(engine->Explain(runs)->waits_for.has_value());
  // The loop has not seen this one.
  const SequenceId waits = MustSubmit(*engine, Request(Prompt(5, 2), 4), second);
  EXPECT_EQ(engine->Explain(waits)->waits_for, WaitNote{});
  gate_.LetOneThrough();
  gate_.WaitUntilHeld();
  EXPECT_EQ(engine->Explain(waits)->waits_for, (WaitNote{.reason = WaitReason::kSeat}));
  EXPECT_EQ(engine->Explain(runs)->phase, SequenceExplanation::Phase::kDecoding);
  EXPECT_FALSE(engine->Explain(waits + 1).has_value());
  gate_.Open();
  second->Wait();
  EXPECT_FALSE(engine->Explain(runs).has_value());
  EXPECT_FALSE(engine->Explain(waits).has_value());
}

// Six seconds a step: after three the second request has waited for 18 s, and again 12 s later.
TEST_F(EngineExplainTest, ALongWaitIsLoggedNowAndThen) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  step_time_ = std::chrono::seconds(6);
  auto engine = MakeEngine(setup_);
  const auto first = std::make_shared<RecordingSink>();
  const auto second = std::make_shared<RecordingSink>();
  gate_.Close();
  MustSubmit(*engine, Request(Prompt(5, 1), 6), first);
  gate_.WaitUntilHeld();
  SequenceRequest request = Request(Prompt(5, 2), 1);
  request.request_id = "patient";
  MustSubmit(*engine, std::move(request), second);
  gate_.Open();
  second->Wait();
  engine.reset();
  spdlog::set_default_logger(before);
  const std::string text = log.str();
  EXPECT_THAT(
      text,
      HasSubstr("1 sequences wait; the first of them (patient), not served for 12.0 s, waits for a seat"));
  std::size_t lines = 0;
  for (std::size_t at = text.find("sequences wait;"); at != std::string::npos;
       at = text.find("sequences wait;", at + 1))
    ++lines;
  EXPECT_EQ(lines, 2u) << text;
}

}  // namespace
}  // namespace skipjack::testing
