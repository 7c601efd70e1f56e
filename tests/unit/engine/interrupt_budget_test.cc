#include "engine/interrupt_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(InterruptBudgetTest, ThreeInARowAndThenSomebodyMustAdvance) {
  InterruptBudget budget(1);
  const TimePoint now{};
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(budget.Allows(now));
      budget.NoteDropped(milliseconds(1), now);
    }
    EXPECT_FALSE(budget.Allows(now));
    EXPECT_FALSE(budget.Allows(now + seconds(1000)));  // time alone does not help
    budget.NoteAdvanced();
  }
}

TEST(InterruptBudgetTest, ZeroForbidsAll) {
  EXPECT_FALSE(InterruptBudget(0).Allows(TimePoint(seconds(100))));
}

TEST(InterruptBudgetTest, LostTimeIsPaidOff) {
  InterruptBudget budget(0.1);  // 3 s ahead
  TimePoint now{};
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(budget.Allows(now));
    budget.NoteDropped(seconds(1), now);
    budget.NoteAdvanced();
  }
  EXPECT_FALSE(budget.Allows(now));  // 4 s
  EXPECT_FALSE(budget.Allows(now + milliseconds(9999)));
  EXPECT_TRUE(budget.Allows(now + seconds(10)));
}

// Of any time T at most part * (T + 30 s) and one step are lost.
TEST(InterruptBudgetTest, HoldsForEveryStretchOfTime) {
  for (const double part : {0.02, 0.1, 0.5}) {
    std::mt19937 random(3);
    InterruptBudget budget(part);
    TimePoint now{};
    std::vector<std::pair<double, double>> drops;  // when it began, what was lost
    while (drops.size() < 400) {
      const Duration step = milliseconds(1 + random() % 2000);
      const TimePoint start = now;
      const bool allowed = budget.Allows(start);
      now += step;
      if (allowed) {
        budget.NoteDropped(step, now);
        drops.emplace_back(ToSeconds(start.time_since_epoch()), ToSeconds(step));
      }
      budget.NoteAdvanced();
    }
    for (std::size_t first = 0; first < drops.size(); ++first) {
      double lost = 0;
      for (std::size_t last = first; last < drops.size(); ++last) {
        lost += drops[last].second;
        const double time = drops[last].first + drops[last].second - drops[first].first;
        ASSERT_LE(lost, part * (time + 30) + 2.0 + 1e-6) << part << " " << first << " " << last;
      }
    }
  }
}

}  // namespace
}  // namespace skipjack
