// What a step costs, counted rather than timed: allocations, comparisons and visits. A program of its own
// because it replaces the global allocation functions.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sched/fcfs_policy.h"
#include "sched/step_scheduler.h"
#include "tests/support/allocation_counter.h"

namespace skipjack {
namespace {

constexpr std::int32_t kSeats = 32;
constexpr SequenceId kQueued = 20000;

SchedulerConfig Config() {
  SchedulerConfig config;
  config.max_batch_tokens = 512;
  config.max_sequences = kSeats;
  config.max_queued = 100000;
  config.block_tokens = 16;
  config.kv_blocks = 4096;
  config.context_length = 2048;
  return config;
}

class SchedulerCost : public ::testing::Test {
 protected:
  void Submit(SequenceId id, std::int32_t prompt_tokens, std::int32_t max_tokens) {
    SubmitRequest request;
    request.sequence = id;
    request.prompt.resize(static_cast<std::size_t>(prompt_tokens));
    std::iota(request.prompt.begin(), request.prompt.end(), static_cast<TokenId>(id * 1000));
    request.max_tokens = max_tokens;
    request.arrival = TimePoint(Duration(static_cast<std::int64_t>(id)));
    ASSERT_TRUE(scheduler_.Submit(std::move(request)).ok());
  }

  void Step() {
    scheduler_.Plan(TimePoint(), &plan_);
    result_.step = plan_.step;
    result_.outcomes.clear();
    for (const Slice& slice : plan_.slices) {
      if (slice.sample) result_.outcomes.push_back({.sequence = slice.sequence, .token = 1});
    }
    scheduler_.Complete(result_, TimePoint());
  }

  void FillSeats() {
    result_.outcomes.reserve(static_cast<std::size_t>(kSeats));
    for (SequenceId id = 1; id <= static_cast<SequenceId>(kSeats); ++id) Submit(id, 40, 1000);
    for (int i = 0; i < 10; ++i) Step();
    ASSERT_EQ(scheduler_.Stats().running, kSeats);
    ASSERT_EQ(plan_.tokens.size(), static_cast<std::size_t>(kSeats)) << "all decode";
  }

  StepScheduler scheduler_{Config(), std::make_unique<FcfsPolicy>()};
  StepPlan plan_;
  StepResult result_;
};

TEST_F(SchedulerCost, SteadyDecodingAllocatesNothing) {
  FillSeats();
  for (SequenceId id = 100; id < 100 + kQueued; ++id) Submit(id, 40, 1000);
  const std::int32_t blocks = scheduler_.Stats().blocks_used;
  const std::uint64_t before = AllocationCount();
  for (int i = 0; i < 300; ++i) Step();
  EXPECT_EQ(AllocationCount() - before, 0u);
  EXPECT_GT(scheduler_.Stats().blocks_used, blocks + 300)
      << "tables grew and blocks were published meanwhile";
  EXPECT_TRUE(scheduler_.CheckInvariants().ok());
}

// Decoders that eat up a pool full of other sequences' cached blocks: eviction allocates nothing either.
TEST_F(SchedulerCost, EvictionAllocatesNothing) {
  for (SequenceId id = 1000; id < 1100; ++id) {
    Submit(id, 1000, 1);
    while (scheduler_.Find(id).has_value()) Step();
  }
  ASSERT_LE(scheduler_.Stats().blocks_free, 1);
  FillSeats();
  const std::int32_t cached = scheduler_.Stats().blocks_cached;
  const std::uint64_t before = AllocationCount();
  for (int i = 0; i < 300; ++i) Step();
  EXPECT_EQ(AllocationCount() - before, 0u);
  EXPECT_LT(scheduler_.Stats().blocks_cached, cached - 300);
}

TEST_F(SchedulerCost, QueuedSequencesCostASteadyStepNothing) {
  FillSeats();
  for (SequenceId id = 100; id < 100 + kQueued; ++id) Submit(id, 40, 1000);
  const std::uint64_t before = scheduler_.queue_work();
  for (int i = 0; i < 300; ++i) Step();
  // With all seats taken, a step looks at the first in the queue only.
  EXPECT_EQ(scheduler_.queue_work() - before, 0u);
}

TEST_F(SchedulerCost, EnteringAndLeavingTheQueueIsLogarithmic) {
  const auto most = static_cast<std::uint64_t>(3 * std::log2(static_cast<double>(kQueued)));
  std::uint64_t before = scheduler_.queue_work();
  for (SequenceId id = 1; id <= kQueued; ++id) Submit(id, 40, 4);
  EXPECT_LE(scheduler_.queue_work() - before, kQueued * most);

  before = scheduler_.queue_work();
  std::uint64_t cancelled = 0;
  for (SequenceId id = 5000; id < 15000; id += 3, ++cancelled) scheduler_.Cancel(id);
  EXPECT_LE(scheduler_.queue_work() - before, cancelled * most);

  // A step admits up to kSeats sequences and passes over none.
  before = scheduler_.queue_work();
  for (int i = 0; i < 100; ++i) Step();
  EXPECT_LE(scheduler_.queue_work() - before, 100 * kSeats * most);
  EXPECT_GT(scheduler_.Stats().running, 0);
}

// Feedback queues under overload: newcomers preempt, sequences sink, thousands starve at the same moment. A
// step still touches only what it changes.
TEST(SchedulerQueueCost, FeedbackQueuesCostTheLogarithmOfTheQueue) {
  constexpr int kSteps = 400;
  for (const char* policy : {"mlfq", "index"}) {
    SchedulerConfig config = Config();
    config.policy = policy;
    config.settings.starvation_bound = std::chrono::milliseconds(100);
    config.settings.ageing_bound = std::chrono::milliseconds(100);
    config.max_lost_part = 1;
    auto learnt = std::make_unique<Learnt>();
    auto made = std::move(*MakePolicy(config.policy, config.settings, *learnt));
    StepScheduler scheduler(config, std::move(made), std::move(learnt));
    StepPlan plan;
    StepResult result;
    TimePoint now;
    SequenceId next = 1;
    const auto submit = [&](std::int32_t prompt_tokens) {
      SubmitRequest request;
      request.sequence = next++;
      request.prompt.resize(static_cast<std::size_t>(prompt_tokens));
      std::iota(request.prompt.begin(), request.prompt.end(), static_cast<TokenId>(request.sequence * 1000));
      request.max_tokens = 100;
      request.arrival = now;
      ASSERT_TRUE(scheduler.Submit(std::move(request)).ok());
    };
    for (SequenceId i = 0; i < kQueued; ++i) submit(40);
    const std::uint64_t before = scheduler.queue_work();
    std::uint64_t changes = 0;
    for (int step = 0; step < kSteps; ++step) {
      submit(8);
      const SchedulerStats then = scheduler.Stats();
      scheduler.Plan(now, &plan);
      now += std::chrono::milliseconds(5);
      result.step = plan.step;
      result.outcomes.clear();
      for (const Slice& slice : plan.slices) {
        if (slice.sample) result.outcomes.push_back({.sequence = slice.sequence, .token = 1});
      }
      scheduler.Complete(result, now);
      // Entering, leaving, and both for each promotion or look at one that cannot be promoted.
      changes += 1 + plan.preempted.size() + plan.slices.size();
      changes += 2 * (scheduler.Stats().promotions - then.promotions) + 2;
    }
    const double most = 3 * std::log2(static_cast<double>(kQueued));
    EXPECT_LE(static_cast<double>(scheduler.queue_work() - before), static_cast<double>(changes) * most)
        << policy;
    EXPECT_GT(scheduler.Stats().preemptions, 100u) << policy;
    if (std::string(policy) == "mlfq") {
      EXPECT_GT(scheduler.Stats().promotions, 3u);
    }
  }
}

}  // namespace
}  // namespace skipjack
