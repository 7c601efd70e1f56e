#include "sched/recording.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using std::chrono::milliseconds;
using testing::Range;

SchedulerConfig Config() {
  SchedulerConfig config;
  config.policy = "mlfq";
  config.settings.quantum = milliseconds(1);
  config.max_batch_tokens = 16;
  config.max_sequences = 2;
  config.block_tokens = 4;
  config.kv_blocks = 8;
  config.host_blocks = 8;
  config.context_length = 32;
  return config;
}

// Five requests, one of them cancelled, until all have ended. The text of the recording.
std::string Record() {
  auto owned = std::make_unique<std::stringbuf>();
  std::stringbuf* buffer = owned.get();
  struct Stream final : std::ostream {
    explicit Stream(std::stringbuf* to) : std::ostream(to) {}
  };
  const auto scheduler =
      RecordScheduler(std::move(*Scheduler::Create(Config())), Config(), std::make_unique<Stream>(buffer));
  TimePoint now;
  for (SequenceId id = 1; id <= 5; ++id) {
    SubmitRequest request{.sequence = id,
                          .prompt = Range(static_cast<TokenId>(10 * id), 9),
                          .max_tokens = 8,
                          .cache_salt = id == 2 ? std::string("\x01\xff salt", 7) : "",
                          .tenant = id == 3 ? "t" : ""};
    if (id == 4) request.deadline = now + milliseconds(30);
    request.arrival = now;
    EXPECT_TRUE(scheduler->Submit(std::move(request)).ok());
  }
  scheduler->Cancel(5);
  StepPlan plan;
  StepResult result;
  for (int step = 0; step < 200; ++step) {
    scheduler->Plan(now, &plan);
    if (plan.empty()) break;
    now += milliseconds(3);
    result.step = plan.step;
    result.outcomes.clear();
    for (const Slice& slice : plan.slices) {
      if (slice.sample) result.outcomes.push_back({.sequence = slice.sequence, .token = 7});
    }
    result.host_copy_seconds = 1e-5;
    scheduler->Complete(result, now);
  }
  EXPECT_EQ(scheduler->Stats().waiting + scheduler->Stats().running, 0);
  return buffer->str();
}

Result<ReplayReport> ReplayOf(const std::string& text) {
  std::istringstream in(text);
  return ReplayRecording(&in);
}

TEST(Recording, IsReplayedToTheSamePlansAndTheSameEnd) {
  const std::string text = Record();
  const Result<ReplayReport> report = ReplayOf(text);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->differs_at, std::nullopt);
  EXPECT_EQ(report->sequences, 5u);
  EXPECT_GT(report->plans, 15u);
  EXPECT_EQ(report->stats.waiting + report->stats.running, 0);
  EXPECT_GT(report->stats.preemptions, 0u);
}

TEST(Recording, AnotherOutcomeOrSettingIsNoticed) {
  const std::string text = Record();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return ReplayOf(changed.replace(at, from.size(), to));
  };
  for (const auto& [from, to] :
       {std::pair{" max_sequences=2 ", " max_sequences=1 "}, std::pair{" policy=mlfq ", " policy=fcfs "},
        std::pair{" 7 0 0", " 8 0 0"}}) {
    const Result<ReplayReport> report = with(from, to);
    ASSERT_TRUE(report.ok()) << from << report.status().ToString();
    EXPECT_TRUE(report->differs_at.has_value()) << from;
  }
}

TEST(Recording, HalfALineAtTheEndIsLeftOut) {
  std::string text = Record();
  const Result<ReplayReport> whole = ReplayOf(text);
  text.resize(text.size() - 3);
  const Result<ReplayReport> report = ReplayOf(text);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->differs_at, std::nullopt);
  EXPECT_LE(report->plans, whole->plans);
}

TEST(Recording, WhatIsNoRecordingIsRefusedByLine) {
  const std::string text = Record();
  const std::string config = text.substr(0, text.find('\n') + 1);
  EXPECT_FALSE(ReplayOf("").ok());
  for (const std::string bad :
       {"nonsense\n", "plan 5 x\n", "plan 5\n", "cancel -1\n", "submit 1 2\n", "submit 1 2 9 0 - - - 1\n",
        "submit 1 2 1 0 - abc - 1\n", "complete 5 1 0 0 0 0 99999999999\n", "complete 5 1 2 0 0 0 0\n",
        "config policy=fcfs\n"}) {
    const Result<ReplayReport> report = ReplayOf(config + bad);
    ASSERT_FALSE(report.ok()) << bad;
    EXPECT_NE(report.status().message().find("line 2"), std::string::npos) << report.status().ToString();
  }
  EXPECT_FALSE(ReplayOf("plan 5 6\n").ok()) << "calls before the configuration";
  EXPECT_FALSE(ReplayOf("config policy=fcfs\n").ok()) << "fields are missing";
  std::string twice = config;
  twice.insert(twice.size() - 1, " policy=fcfs");
  EXPECT_FALSE(ReplayOf(twice).ok());
  std::string unknown = config;
  unknown.insert(unknown.size() - 1, " colour=blue");
  EXPECT_FALSE(ReplayOf(unknown).ok());
}

}  // namespace
}  // namespace skipjack
