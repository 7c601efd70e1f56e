// What a running engine's scheduler was asked, asked again: every plan must come out the same.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "sched/recording.h"
#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

constexpr std::uint64_t kSteps = 10000;
constexpr std::size_t kOutstanding = 24;

// Requests of all classes, some with deadlines, some cancelled, until there were enough steps.
void Load(Engine& engine, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<SequenceId> ids;
  std::size_t waited_for = 0;
  while (engine.Stats().steps < kSteps) {
    SequenceRequest request = Request(Prompt(1 + random() % 60, static_cast<unsigned>(random() % 50)),
                                      static_cast<std::int32_t>(1 + random() % 60));
    request.priority =
        random() % 10 == 0 ? static_cast<PriorityClass>(random() % 3) : PriorityClass::kInteractive;
    if (random() % 16 == 0) request.deadline = SystemClock().Now() + std::chrono::milliseconds(random() % 50);
    request.tenant = random() % 2 == 0 ? "a" : "";
    if (random() % 3 == 0) request.sampling.end_after_tokens = static_cast<std::int32_t>(1 + random() % 60);
    sinks.push_back(std::make_shared<RecordingSink>());
    const Result<SequenceId> id = engine.Submit(std::move(request), sinks.back());
    ASSERT_TRUE(id.ok()) << id.status().ToString();
    ids.push_back(*id);
    if (random() % 12 == 0) engine.Cancel(ids[random() % ids.size()], Status::Cancelled("by chance"));
    if (sinks.size() - waited_for >= kOutstanding) sinks[waited_for++]->Wait();
  }
  for (const auto& sink : sinks) sink->Wait();
}

class EngineRecordingTest : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineRecordingTest, TenThousandStepsAreReplayedPlanByPlan) {
  const std::string path = ::testing::TempDir() + "/recording-" + GetParam();
  EngineSetup setup;
  setup.scheduler.policy = GetParam();
  setup.scheduler.settings.quantum = std::chrono::microseconds(20);
  setup.scheduler.settings.starvation_bound = std::chrono::milliseconds(2);
  setup.scheduler.settings.ageing_bound = std::chrono::milliseconds(5);
  setup.scheduler.max_lost_part = 1;
  setup.scheduler.kv_blocks = 64;
  setup.scheduler.host_blocks = 96;
  setup.record = path;
  {
    const std::unique_ptr<Engine> engine = MakeEngine(setup);
    Load(*engine, 7);
  }
  std::ifstream file(path);
  const Result<ReplayReport> report = ReplayRecording(&file);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->differs_at, std::nullopt);
  EXPECT_GE(report->plans, kSteps);
  EXPECT_GT(report->stats.preemptions, 100u);
  EXPECT_GT(report->stats.swap.out + report->stats.swap.in, 100u);
  EXPECT_EQ(report->stats.waiting + report->stats.running, 0);
}

INSTANTIATE_TEST_SUITE_P(Policies, EngineRecordingTest, ::testing::Values("mlfq", "index"),
                         [](const auto& named) { return std::string(named.param); });

TEST(EngineRecording, AFileThatCannotBeWrittenIsNamed) {
  EngineSetup setup;
  setup.record = ::testing::TempDir() + "/no-such-folder/recording";
  const Result<std::unique_ptr<Engine>> engine = TryMakeEngine(setup);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.status().message().find(setup.record), std::string::npos);
}

TEST(EngineOutput, ScriptedEndsAreStopsThatTheLengthLimitDoesNotKnow) {
  const std::unique_ptr<Engine> engine = MakeEngine({});
  SequenceRequest request = Request(Prompt(5, 1), 20);
  request.sampling.end_after_tokens = 7;
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(engine->Submit(std::move(request), sink).ok());
  const FinishEvent finish = sink->Wait();
  EXPECT_EQ(finish.reason, FinishReason::kStop);
  EXPECT_EQ(finish.generated_tokens, 7);
  EXPECT_EQ(sink->tokens(), Reference(Prompt(5, 1), 7));
}

}  // namespace
}  // namespace skipjack::testing
