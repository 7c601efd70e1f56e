#include "backend/cpu/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <vector>

namespace skipjack {
namespace {

using std::chrono::microseconds;

class ThreadTeamTest : public testing::TestWithParam<ThreadTeamOptions> {};

TEST_P(ThreadTeamTest, EveryLaneRunsOncePerCall) {
  ThreadTeam team(GetParam());
  std::vector<int> calls(static_cast<std::size_t>(team.size()));
  for (int round = 0; round < 200; ++round) {
    team.Run([&](int lane) { ++calls[static_cast<std::size_t>(lane)]; });
    for (const int count : calls) ASSERT_EQ(count, round + 1);
  }
}

// Each lane writes its cell with plain stores and reads its neighbour's after the barrier: any missing order
// is a data race (ThreadSanitizer) or a wrong sum.
TEST_P(ThreadTeamTest, BarrierOrdersPlainWrites) {
  ThreadTeam team(GetParam());
  const auto lanes = static_cast<std::size_t>(team.size());
  std::vector<int> cells(lanes);
  std::vector<int> errors(lanes);
  team.Run([&](int lane) {
    const auto self = static_cast<std::size_t>(lane);
    for (int round = 1; round <= 300; ++round) {
      cells[self] = round;
      team.Barrier(lane);
      if (cells[(self + 1) % lanes] != round) ++errors[self];
      team.Barrier(lane);
    }
  });
  EXPECT_EQ(std::accumulate(errors.begin(), errors.end(), 0), 0);
}

TEST_P(ThreadTeamTest, ParallelForCoversEveryIndexOnce) {
  ThreadTeam team(GetParam());
  for (const std::int32_t count : {0, 1, 2, 3, 17, 1000}) {
    std::vector<int> seen(static_cast<std::size_t>(count));
    team.ParallelFor(count, [&](std::int32_t i) { ++seen[static_cast<std::size_t>(i)]; });
    for (const int times : seen) EXPECT_EQ(times, 1);
  }
}

TEST_P(ThreadTeamTest, StartsAndStopsIdle) {
  for (int i = 0; i < 20; ++i) ThreadTeam team(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Teams, ThreadTeamTest,
                         testing::Values(ThreadTeamOptions{1, microseconds(20)},
                                         ThreadTeamOptions{2, microseconds(20)},
                                         ThreadTeamOptions{3, microseconds(20)},
                                         ThreadTeamOptions{5, microseconds(0)}));

TEST(ThreadTeamTest, FewerThanOneThreadIsOne) {
  ThreadTeam team(ThreadTeamOptions{.threads = 0});
  EXPECT_EQ(team.size(), 1);
  int calls = 0;
  team.Run([&](int lane) { calls += lane + 1; });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace skipjack
