// Every reason to wait and every cause of a preemption, in scenarios worked by hand.
#include "sched/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::Range;
using testing::SchedulerHarness;
using Phase = SequenceExplanation::Phase;

SchedulerConfig Config() {
  SchedulerConfig config;
  config.max_batch_tokens = 32;
  config.max_sequences = 4;
  config.block_tokens = 4;
  config.kv_blocks = 8;
  config.context_length = 64;
  return config;
}

SchedulerConfig OneSeat() {
  SchedulerConfig config = Config();
  config.max_sequences = 1;
  config.kv_blocks = 32;
  return config;
}

SequenceExplanation Explain(SchedulerHarness& harness, SequenceId id) {
  const auto explanation = harness.scheduler().Explain(id, harness.now());
  EXPECT_TRUE(explanation.has_value()) << id;
  return explanation.value_or(SequenceExplanation{});
}

WaitNote WaitOf(SchedulerHarness& harness, SequenceId id) {
  return Explain(harness, id).waits_for.value_or(WaitNote{.blocks_wanted = -1});
}

std::string Sentence(const SequenceExplanation& explanation) {
  return ToSentence(explanation, [](SequenceId id) { return "sequence " + std::to_string(id); });
}

TEST(Explanation, AnUnknownSequenceHasNone) {
  SchedulerHarness harness(Config());
  EXPECT_FALSE(harness.scheduler().Explain(1, harness.now()).has_value());
  EXPECT_FALSE(harness.scheduler().FirstWaiting().has_value());
}

TEST(Explanation, ANewcomerWaitsForThePlan) {
  SchedulerHarness harness(Config());
  ASSERT_TRUE(harness.Submit(1, Range(100, 4), 4).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 4, {.priority = PriorityClass::kRealtime}).ok());
  const SequenceExplanation first = Explain(harness, 1);
  EXPECT_EQ(first.phase, Phase::kWaiting);
  EXPECT_EQ(first.waits_for, WaitNote{});
  EXPECT_EQ(first.ahead, 1) << "realtime goes first";
  EXPECT_EQ(Explain(harness, 2).ahead, 0);
  EXPECT_EQ(harness.scheduler().FirstWaiting(), 2u);
  harness.Plan();
  EXPECT_EQ(Explain(harness, 1).phase, Phase::kPrefilling);
  EXPECT_FALSE(Explain(harness, 1).waits_for.has_value());
  // One that comes while the plan is computed was not looked at either.
  ASSERT_TRUE(harness.Submit(3, Range(300, 4), 4).ok());
  EXPECT_EQ(WaitOf(harness, 3).reason, WaitReason::kNotReviewed);
  harness.Complete();
  EXPECT_EQ(Explain(harness, 1).phase, Phase::kDecoding);
}

TEST(Explanation, OneWaitsForASeatAndTheNextBehindIt) {
  SchedulerHarness harness(OneSeat());
  for (SequenceId id = 1; id <= 3; ++id)
    ASSERT_TRUE(harness.Submit(id, Range(static_cast<TokenId>(id * 100), 4), 9).ok());
  ASSERT_TRUE(harness.Step());
  harness.Plan();
  EXPECT_EQ(WaitOf(harness, 2), (WaitNote{.reason = WaitReason::kSeat}));
  EXPECT_EQ(WaitOf(harness, 3),
            (WaitNote{.reason = WaitReason::kBehind, .other = 2, .other_reason = WaitReason::kSeat}));
  const SequenceExplanation last = Explain(harness, 3);
  EXPECT_EQ(last.ahead, 1);
  EXPECT_EQ(last.running, 1);
  EXPECT_EQ(last.seats, 1);
  EXPECT_THAT(Sentence(last), HasSubstr("waits behind sequence 2, which waits for a seat: all 1 are taken"));
}

// 14 tokens and 4 to come: 4 blocks, a fifth later. 20 tokens and 4 to come: 5 blocks and a reserve of one
// more for each of the two that grow makes 7, of 8 - 4.
TEST(Explanation, BlocksAreCounted) {
  SchedulerHarness harness(Config());
  ASSERT_TRUE(harness.Submit(1, Range(100, 14), 4).ok());
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Submit(2, Range(200, 20), 4).ok());
  ASSERT_TRUE(harness.Submit(3, Range(300, 2), 1).ok());
  harness.Plan();
  EXPECT_EQ(WaitOf(harness, 2),
            (WaitNote{.reason = WaitReason::kBlocks, .blocks_wanted = 7, .blocks_available = 4}));
  EXPECT_EQ(WaitOf(harness, 3), (WaitNote{.reason = WaitReason::kBehind,
                                          .other = 2,
                                          .other_reason = WaitReason::kBlocks,
                                          .blocks_wanted = 7,
                                          .blocks_available = 4}));
  EXPECT_EQ(Sentence(Explain(harness, 2)),
            "waits for KV blocks: wants 7, 4 are available; nobody who waits goes before it");
  EXPECT_EQ(Explain(harness, 1).blocks, 4);
}

TEST(Explanation, TheTokenBudgetLeavesOut) {
  SchedulerConfig config = Config();
  config.max_batch_tokens = 8;
  config.kv_blocks = 64;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 6), 9).ok());
  ASSERT_TRUE(harness.Submit(2, Range(200, 20), 9).ok());
  ASSERT_TRUE(harness.Submit(3, Range(300, 6), 9).ok());
  harness.Plan();  // 6 of the first, 2 of the second
  EXPECT_EQ(WaitOf(harness, 3), (WaitNote{.reason = WaitReason::kTokenBudget}));
  harness.Complete();
  // The first decodes, a realtime prompt takes the other 7: the second, which runs, gets nothing.
  ASSERT_TRUE(harness.Submit(4, Range(400, 8), 9, {.priority = PriorityClass::kRealtime}).ok());
  harness.Plan();
  const SequenceExplanation second = Explain(harness, 2);
  EXPECT_EQ(second.phase, Phase::kPrefilling);
  EXPECT_EQ(second.scheduled, 0);
  EXPECT_EQ(second.waits_for, (WaitNote{.reason = WaitReason::kTokenBudget}));
  EXPECT_THAT(Sentence(second),
              HasSubstr("has computed 2 of 20 tokens and holds 5 KV blocks; waits for room"));
  EXPECT_FALSE(Explain(harness, 1).waits_for.has_value());
}

TEST(Explanation, ASharedPrefixIsNamed) {
  SchedulerConfig config = Config();
  config.kv_blocks = 64;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 16), 4).ok());
  ASSERT_TRUE(harness.Submit(2, Range(100, 18), 4).ok());
  harness.Plan();
  EXPECT_EQ(WaitOf(harness, 2), (WaitNote{.reason = WaitReason::kSharedPrefix, .other = 1}));
  EXPECT_THAT(Sentence(Explain(harness, 2)),
              HasSubstr("waits for its prefix, which sequence 1 is just computing"));
}

TEST(Explanation, AClosedBatch) {
  SchedulerConfig config = Config();
  config.policy = "request";
  config.kv_blocks = 64;
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 4), 9).ok());
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 9).ok());
  harness.Plan();
  EXPECT_EQ(WaitOf(harness, 2), (WaitNote{.reason = WaitReason::kClosedBatch}));
}

TEST(Explanation, AHigherClassPreemptsAndTheOtherGaveWay) {
  SchedulerHarness harness(OneSeat());
  ASSERT_TRUE(harness.Submit(1, Range(100, 6), 9, {.priority = PriorityClass::kBatch}).ok());
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 2, {.priority = PriorityClass::kRealtime}).ok());
  harness.Plan();
  EXPECT_EQ(harness.plan().preempted,
            (std::vector<Preemption>{
                {.sequence = 1, .tokens_lost = 6, .cause = PreemptionCause::kPriority, .by = 2}}));
  const SequenceExplanation gone = Explain(harness, 1);
  EXPECT_EQ(gone.phase, Phase::kPreempted);
  EXPECT_EQ(gone.waits_for, (WaitNote{.reason = WaitReason::kGaveWay}));
  EXPECT_EQ(
      gone.preempted,
      (PreemptionNote{.cause = PreemptionCause::kPriority, .by = 2, .tokens_lost = 6, .at = harness.now()}));
  EXPECT_THAT(Sentence(gone),
              HasSubstr("preempted 0.0 s ago by sequence 2, whose priority class is higher, 6 "
                        "computed tokens lost"));
  harness.Complete();
  harness.Plan();
  EXPECT_EQ(WaitOf(harness, 1), (WaitNote{.reason = WaitReason::kSeat})) << "in the next plan it is the seat";
  harness.Complete();
  harness.Plan();
  EXPECT_TRUE(Explain(harness, 1).preempted.has_value()) << "it runs again, and what happened is still known";
  EXPECT_EQ(harness.scheduler().Stats().preemptions_by_cause[0], 1u);
}

// The one that runs passed its deadline (5 us) while it was served; the other never had one.
TEST(Explanation, TheLateGiveWay) {
  SchedulerConfig config = OneSeat();
  config.policy = "mlfq";
  config.settings.quantum = milliseconds(100);
  SchedulerHarness harness(config);
  ASSERT_TRUE(harness.Submit(1, Range(100, 4), 20, {.deadline = TimePoint(Duration(5'000))}).ok());
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(harness.Step());
  EXPECT_TRUE(Explain(harness, 1).late);
  ASSERT_TRUE(harness.Submit(2, Range(200, 4), 2).ok());
  harness.Plan();
  ASSERT_EQ(harness.plan().preempted.size(), 1u);
  EXPECT_EQ(harness.plan().preempted[0].cause, PreemptionCause::kDeadline);
  EXPECT_EQ(harness.plan().preempted[0].by, 2u);
  EXPECT_THAT(Sentence(Explain(harness, 1)),
              HasSubstr("can no longer meet its deadline; preempted 0.0 s ago by sequence 2"));
}

// Two that grow together until the ninth block is needed: by the one ahead, or by the last itself.
TEST(Explanation, GrowthPreemptsTheLastInOrder) {
  for (const bool itself : {false, true}) {
    SchedulerHarness harness(Config());
    ASSERT_TRUE(harness.Submit(1, Range(100, itself ? 6 : 7), 16).ok());
    ASSERT_TRUE(harness.Submit(2, Range(200, 7), 16).ok());
    for (int i = 0; harness.Plan().preempted.empty(); ++i) {
      ASSERT_LT(i, 30);
      harness.Complete();
    }
    EXPECT_EQ(
        harness.plan().preempted,
        (std::vector<Preemption>{
            {.sequence = 2, .tokens_lost = 16, .cause = PreemptionCause::kGrowth, .by = itself ? 0u : 1u}}));
    EXPECT_THAT(Sentence(Explain(harness, 2)),
                HasSubstr(itself ? "because there was no KV block for its next token"
                                 : "because sequence 1 needed its KV blocks to go on"));
    EXPECT_EQ(harness.scheduler().Stats().preemptions_by_cause[3], 1u);
  }
}

// Quanta of 11, 22, 44 ms: a prompt of 40 ms joins level 2, one of 1 ms level 0 and goes first. What it
// costs, 40 ms of work, is more than the 30 ms allowance: the next of its kind waits.
TEST(Explanation, PreemptionsPauseForTheWorkTheyLose) {
  SchedulerConfig config = OneSeat();
  config.policy = "mlfq";
  config.settings.quantum = milliseconds(11);
  config.max_lost_part = 0.001;
  config.prefix_cache = false;
  config.max_batch_tokens = 64;
  config.latency = {.step = 1e-6, .prompt_token = 1e-3};
  auto scheduler = std::move(*Scheduler::Create(config));
  StepPlan plan;
  const auto submit = [&](SequenceId id, std::int32_t prompt, std::int32_t max_tokens) {
    SubmitRequest request;
    request.sequence = id;
    request.prompt = Range(static_cast<TokenId>(id * 1000), prompt);
    request.max_tokens = max_tokens;
    ASSERT_TRUE(scheduler->Submit(std::move(request)).ok());
  };
  const auto complete = [&] {
    StepResult result{.step = plan.step};
    for (const Slice& slice : plan.slices) {
      if (slice.sample) result.outcomes.push_back({.sequence = slice.sequence, .token = 1});
    }
    scheduler->Complete(result, TimePoint());  // no time passes: nothing is learnt or paid off
  };
  submit(1, 40, 20);
  scheduler->Plan(TimePoint(), &plan);
  complete();
  submit(2, 1, 1);
  scheduler->Plan(TimePoint(), &plan);
  EXPECT_EQ(plan.preempted,
            (std::vector<Preemption>{
                {.sequence = 1, .tokens_lost = 40, .cause = PreemptionCause::kPolicy, .by = 2}}));
  const auto pushed = scheduler->Explain(1, TimePoint());
  EXPECT_EQ(pushed->level, 2);
  EXPECT_EQ(pushed->preempted->by_level, 0);
  EXPECT_THAT(Sentence(*pushed), HasSubstr("by sequence 2 of level 0, which goes first"));
  complete();
  scheduler->Plan(TimePoint(), &plan);
  complete();
  submit(3, 1, 1);
  scheduler->Plan(TimePoint(), &plan);
  const auto paused = scheduler->Explain(3, TimePoint());
  EXPECT_EQ(paused->waits_for, (WaitNote{.reason = WaitReason::kLostWork}));
  EXPECT_EQ(paused->promoted_in, std::nullopt) << "it is in the first queue already";
  complete();
}

// A seat, 10 ms a step, quanta of 10 and 20 ms: after a step one sinks to level 1, after three to level 2.
TEST(Explanation, LevelsAreCountedAsSequencesSinkAndArePromoted) {
  SchedulerConfig config = OneSeat();
  config.policy = "mlfq";
  config.settings.quantum = milliseconds(10);
  config.settings.starvation_bound = milliseconds(50);
  SchedulerHarness harness(config);
  harness.SetStepTime(milliseconds(10));
  ASSERT_TRUE(harness.Submit(1, Range(100, 1), 30).ok());
  EXPECT_EQ(harness.scheduler().Stats().waiting_by_level[0], 1);
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.scheduler().Stats().running_by_level[1], 1);
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.scheduler().Stats().running_by_level[2], 1);
  EXPECT_EQ(harness.scheduler().Stats().demotions, 2u);
  EXPECT_EQ(harness.scheduler().Find(1)->level, 2);
  EXPECT_EQ(harness.scheduler().Find(1)->level_since, TimePoint(milliseconds(30)));
  // Newcomers of one step each keep it waiting until 30 + 50 ms.
  SequenceId next = 2;
  while (harness.scheduler().Find(1)->level != 0) {
    ASSERT_LT(next, 20u);
    ASSERT_TRUE(harness.Submit(next, Range(static_cast<TokenId>(next * 1000), 1), 1).ok());
    ++next;
    harness.Plan();
    const SequenceExplanation waiting = Explain(harness, 1);
    if (waiting.level == 2) {
      EXPECT_EQ(harness.scheduler().Stats().waiting_by_level[2], 1);
      EXPECT_EQ(waiting.promoted_in, TimePoint(milliseconds(80)) - harness.now());
    }
    harness.Complete();
  }
  EXPECT_EQ(harness.scheduler().Find(1)->level_since, TimePoint(milliseconds(80)));
  EXPECT_EQ(harness.scheduler().Stats().promotions, 1u);
}

TEST(Explanation, CountingThoseAheadIsCutOff) {
  SchedulerConfig config = OneSeat();
  config.max_queued = 1000;
  SchedulerHarness harness(config);
  for (SequenceId id = 1; id <= 300; ++id) ASSERT_TRUE(harness.Submit(id, Range(100, 4), 4).ok());
  EXPECT_EQ(Explain(harness, 257).ahead, 256);
  EXPECT_FALSE(Explain(harness, 257).ahead_is_more);
  EXPECT_EQ(Explain(harness, 300).ahead, 256);
  EXPECT_TRUE(Explain(harness, 300).ahead_is_more);
  EXPECT_THAT(Sentence(Explain(harness, 300)), HasSubstr("at least 256 sequences that wait go before it"));
}

// What must hold of the reason that a plan left with a sequence, as far as the plan itself shows it.
void CheckReason(SchedulerHarness& harness, SequenceId id) {
  const SequenceExplanation explanation = Explain(harness, id);
  const bool waits = explanation.phase == Phase::kWaiting || explanation.phase == Phase::kPreempted;
  ASSERT_EQ(waits, explanation.blocks == 0) << id;
  if (!waits) {
    ASSERT_EQ(explanation.waits_for.has_value(), harness.SliceOf(id) == nullptr) << id;
    return;
  }
  ASSERT_TRUE(explanation.waits_for.has_value()) << id;
  const WaitNote& note = *explanation.waits_for;
  std::int32_t ahead = 0;
  const Rank rank = *harness.scheduler().FindRank(id);
  for (const SequenceId other : harness.Live()) {
    const Phase phase = Explain(harness, other).phase;
    ahead += (phase == Phase::kWaiting || phase == Phase::kPreempted) &&
                     *harness.scheduler().FindRank(other) < rank
                 ? 1
                 : 0;
  }
  EXPECT_EQ(explanation.ahead, ahead);
  switch (note.reason) {
    case WaitReason::kSeat:
      EXPECT_GT(explanation.running, 0);
      break;
    case WaitReason::kBlocks:
      EXPECT_GT(note.blocks_wanted, note.blocks_available);
      break;
    case WaitReason::kBehind: {
      const WaitNote other = WaitOf(harness, note.other);
      EXPECT_LT(*harness.scheduler().FindRank(note.other), rank);
      EXPECT_EQ(note.other_reason, other.reason);
      EXPECT_EQ(note.blocks_wanted, other.blocks_wanted);
      EXPECT_NE(other.reason, WaitReason::kBehind);
      break;
    }
    case WaitReason::kTokenBudget:
      // Where prompts are not split, the last may have been too long for what was left.
      if (harness.config().policy != "fcfs" && harness.config().policy != "mlfq") break;
      EXPECT_EQ(harness.plan().tokens.size(), static_cast<std::size_t>(harness.config().max_batch_tokens));
      break;
    case WaitReason::kSharedPrefix:
      ASSERT_NE(harness.SliceOf(note.other), nullptr);
      EXPECT_GT(harness.SliceOf(note.other)->token_count, 1);
      break;
    case WaitReason::kGaveWay:
      EXPECT_TRUE(std::ranges::any_of(harness.plan().preempted,
                                      [id](const Preemption& p) { return p.sequence == id; }));
      break;
    case WaitReason::kClosedBatch:
      EXPECT_EQ(harness.config().policy, "request");
      break;
    case WaitReason::kLostWork:
      EXPECT_LT(harness.config().max_lost_part, 1);
      break;
    case WaitReason::kFuture:
      EXPECT_GT(harness.scheduler().Stats().running, 0);
      break;
    case WaitReason::kCopies:
      EXPECT_GT(harness.config().host_blocks, 0);
      break;
    case WaitReason::kNotReviewed:
      ADD_FAILURE() << "sequence " << id << " was there before the plan";
      break;
  }
}

TEST(Explanation, EveryReasonFitsItsPlan) {
  std::array<int, kWaitReasons> seen{};
  for (const char* policy : {"fcfs", "mlfq", "request", "orca"}) {
    std::mt19937 random(7);
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    SchedulerConfig config = Config();
    config.policy = policy;
    config.settings.quantum = Duration(2000);
    config.kv_blocks = 20;
    config.max_batch_tokens = 16;
    config.host_blocks = std::string_view(policy) == "mlfq" ? 60 : 0;
    SchedulerHarness harness(config);
    harness.SetStepTime(std::chrono::milliseconds(2), std::chrono::milliseconds(1));
    SequenceId next = 1;
    for (int step = 0; step < 600; ++step) {
      if (below(3) == 0 && harness.Live().size() < 12) {
        // Few prompts, so that prefixes are shared.
        ASSERT_TRUE(harness
                        .Submit(next++, Range(100 * below(4), 1 + below(30)), 1 + below(20),
                                {.priority = static_cast<PriorityClass>(below(3)),
                                 .arrival = harness.now().time_since_epoch().count()})
                        .ok());
      }
      if (harness.Plan().empty()) continue;
      for (const SequenceId id : harness.Live()) {
        CheckReason(harness, id);
        if (HasFatalFailure() || HasNonfatalFailure()) {
          FAIL() << policy << " step " << step << " sequence " << id << '\n' << harness.plan().ToString();
        }
        if (const auto note = Explain(harness, id).waits_for) ++seen[static_cast<std::size_t>(note->reason)];
      }
      harness.Complete();
    }
  }
  for (const WaitReason reason :
       {WaitReason::kSeat, WaitReason::kBlocks, WaitReason::kBehind, WaitReason::kTokenBudget,
        WaitReason::kSharedPrefix, WaitReason::kClosedBatch, WaitReason::kGaveWay, WaitReason::kCopies}) {
    EXPECT_GT(seen[static_cast<std::size_t>(reason)], 0) << WaitReasonName(reason);
  }
}

}  // namespace
}  // namespace skipjack
