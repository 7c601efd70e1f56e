#include "sched/step_plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace skipjack {
namespace {

StepPlan MakePlan() {
  StepPlan plan;
  plan.step = 7;
  plan.slices = {{.sequence = 3,
                  .position = 8,
                  .token_offset = 0,
                  .token_count = 1,
                  .table_offset = 0,
                  .table_count = 2,
                  .sample = true},
                 {.sequence = 4,
                  .position = 0,
                  .token_offset = 1,
                  .token_count = 2,
                  .table_offset = 2,
                  .table_count = 1,
                  .sample = false}};
  plan.tokens = {501, 502, 503};
  plan.block_tables = {11, 12, 13};
  plan.preempted = {{.sequence = 9, .tokens_lost = 20, .cause = PreemptionCause::kGrowth, .by = 3}};
  return plan;
}

TEST(StepPlan, ClearKeepsCapacity) {
  StepPlan plan = MakePlan();
  const auto capacity = plan.tokens.capacity();
  plan.Clear();
  EXPECT_TRUE(plan.empty());
  EXPECT_EQ(plan, StepPlan{});
  EXPECT_EQ(plan.tokens.capacity(), capacity);
}

TEST(StepPlan, HashSeesEveryField) {
  const std::vector<std::function<void(StepPlan*)>> changes = {
      [](StepPlan*) {},
      [](StepPlan* p) { p->step = 8; },
      [](StepPlan* p) { p->slices[0].sequence = 5; },
      [](StepPlan* p) { p->slices[0].position = 9; },
      [](StepPlan* p) { p->slices[1].token_offset = 0; },
      [](StepPlan* p) { p->slices[1].token_count = 1; },
      [](StepPlan* p) { p->slices[1].table_offset = 1; },
      [](StepPlan* p) { p->slices[1].table_count = 2; },
      [](StepPlan* p) { p->slices[1].sample = true; },
      [](StepPlan* p) { p->tokens[1] = 1; },
      [](StepPlan* p) { std::swap(p->tokens[0], p->tokens[1]); },
      [](StepPlan* p) { p->block_tables[2] = 1; },
      [](StepPlan* p) { p->preempted[0].sequence = 1; },
      [](StepPlan* p) { p->preempted[0].tokens_lost = 1; },
      [](StepPlan* p) { p->preempted[0].cause = PreemptionCause::kPolicy; },
      [](StepPlan* p) { p->preempted[0].by = 0; },
      [](StepPlan* p) { p->preempted.clear(); },
      [](StepPlan* p) { p->slices.pop_back(); },
  };
  std::set<std::uint64_t> hashes;
  for (const auto& change : changes) {
    StepPlan plan = MakePlan();
    change(&plan);
    EXPECT_TRUE(hashes.insert(plan.Hash()).second);
  }
  EXPECT_EQ(MakePlan().Hash(), MakePlan().Hash());
}

TEST(StepPlan, PrintsEverythingButTheTokens) {
  EXPECT_EQ(MakePlan().ToString(),
            "step 7: 2 slices, 3 tokens\n"
            "  sequence 3 [8, 9) sample blocks 11 12\n"
            "  sequence 4 [0, 2) blocks 13\n"
            "  preempted 9, 20 tokens lost, growth of 3\n");
}

}  // namespace
}  // namespace skipjack
