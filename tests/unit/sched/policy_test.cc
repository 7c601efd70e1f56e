#include "sched/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sched/fcfs_policy.h"

namespace skipjack {
namespace {

TEST(Policy, RankComparesClassThenDeadlineThenShareThenPolicyThenTicket) {
  const std::vector<Rank> in_order = {
      {.priority = PriorityClass::kRealtime, .policy = {9, 9}, .ticket = 9},
      {.priority = PriorityClass::kInteractive, .share = -1, .policy = {9, 9}, .ticket = 9},
      {.priority = PriorityClass::kInteractive, .policy = {0, 5}, .ticket = 8},
      {.priority = PriorityClass::kInteractive, .policy = {0, 6}, .ticket = 1},
      {.priority = PriorityClass::kInteractive, .policy = {0, 6}, .ticket = 2},
      {.priority = PriorityClass::kInteractive, .policy = {1, 0}, .ticket = 0},
      {.priority = PriorityClass::kInteractive, .share = 1, .policy = {0, 0}, .ticket = 0},
      {.priority = PriorityClass::kInteractive, .late = true, .policy = {0, 0}, .ticket = 0},
      {.priority = PriorityClass::kBatch, .policy = {0, 0}, .ticket = 0},
  };
  EXPECT_TRUE(std::ranges::is_sorted(in_order));
  for (std::size_t i = 1; i < in_order.size(); ++i) EXPECT_LT(in_order[i - 1], in_order[i]);
}

TEST(FcfsPolicy, OrdersByArrivalWhateverElseHappens) {
  const FcfsPolicy policy;
  SequenceSnapshot early{.sequence = 2, .arrival = TimePoint(Duration(10)), .prompt_tokens = 5000};
  SequenceSnapshot late{.sequence = 1, .arrival = TimePoint(Duration(11)), .prompt_tokens = 1};
  EXPECT_LT(policy.KeyOf(early), policy.KeyOf(late));
  early.preemptions = 5;
  early.generated_tokens = 400;
  EXPECT_LT(policy.KeyOf(early), policy.KeyOf(late));
  EXPECT_FALSE(policy.MayPreempt(early, late));
}

TEST(Policy, UnknownNamesAreRefusedWithTheKnownOnes) {
  const Learnt learnt;
  for (const char* name : {"request", "orca", "fcfs", "mlfq", "index"}) {
    EXPECT_EQ((*MakePolicy(name, {}, learnt))->name(), name);
  }
  const Status status = MakePolicy("lifo", {}, learnt).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("'lifo'"), std::string::npos);
  EXPECT_NE(status.message().find("fcfs"), std::string::npos);
}

}  // namespace
}  // namespace skipjack
