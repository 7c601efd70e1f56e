#include "backend/cpu/work_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "backend/cpu/thread_team.h"

namespace skipjack {
namespace {

TEST(WorkShareTest, SharesAreContiguousEvenAndCutAtUnits) {
  for (const std::int64_t count : {0, 1, 5, 48, 61}) {
    for (const int lanes : {1, 2, 3, 7}) {
      for (const std::int64_t unit : {1, 2, 4}) {
        std::int64_t next = 0;
        for (int lane = 0; lane < lanes; ++lane) {
          const WorkShare share = WorkShare::Of(count, lanes, lane, unit);
          EXPECT_EQ(share.begin, next);
          if (share.end < count) {
            EXPECT_EQ(share.end % unit, 0);
          }
          EXPECT_LE(share.size(), (count / unit / lanes + 1) * unit);
          next = share.end;
        }
        EXPECT_EQ(next, count);
      }
    }
  }
}

TEST(WorkShareTest, WithinCutsOutAPart) {
  const WorkShare share{10, 20};
  const auto same = [](WorkShare a, WorkShare b) { return a.begin == b.begin && a.end == b.end; };
  EXPECT_TRUE(same(share.Within(0, 15), {10, 15}));
  EXPECT_TRUE(same(share.Within(15, 100), {0, 5}));
  EXPECT_TRUE(same(share.Within(12, 3), {0, 3}));
  EXPECT_EQ(share.Within(0, 10).size(), 0);
  EXPECT_EQ(share.Within(20, 10).size(), 0);
}

// Each piece of each phase is done once, whoever does it.
TEST(WorkQueueTest, EveryPieceOfEveryPhaseIsDoneOnce) {
  const std::vector<std::int64_t> counts = {1, 60, 0, 7, 200, 3, 96};
  for (const int lanes : {1, 2, 4}) {
    ThreadTeam team(ThreadTeamOptions{.threads = lanes});
    WorkQueue queue(lanes);
    std::vector<std::vector<int>> done;
    for (const std::int64_t count : counts) done.emplace_back(static_cast<std::size_t>(count));
    for (std::uint64_t round = 0; round < 3; ++round) {  // the counters are used again and again
      team.Run([&](int lane) {
        for (std::size_t p = 0; p < counts.size(); ++p) {
          queue.Run(lane, round * counts.size() + p, counts[p], 2, [&](WorkShare part) {
            EXPECT_EQ(part.begin % 2, 0);
            EXPECT_GT(part.size(), 0);
            for (std::int64_t i = part.begin; i < part.end; ++i) ++done[p][static_cast<std::size_t>(i)];
          });
          team.Barrier(lane);
        }
      });
      for (const auto& phase : done) {
        for (const int times : phase) ASSERT_EQ(times, static_cast<int>(round) + 1);
      }
    }
  }
}

// A lane that is stuck in its first piece finds the rest of its share done by the others.
TEST(WorkQueueTest, OthersHelpASlowLane) {
  constexpr std::int64_t kCount = 120;
  ThreadTeam team(ThreadTeamOptions{.threads = 3});
  WorkQueue queue(3);
  std::atomic<std::int64_t> done{0};
  std::int64_t largest_piece_of_slow_lane = 0;
  team.Run([&](int lane) {
    queue.Run(lane, 0, kCount, 1, [&](WorkShare part) {
      if (lane == 1) {
        largest_piece_of_slow_lane = std::max(largest_piece_of_slow_lane, part.size());
        while (done.load() < kCount - part.size()) std::this_thread::yield();
      }
      done.fetch_add(part.size());
    });
  });
  EXPECT_EQ(done.load(), kCount);
  EXPECT_LT(largest_piece_of_slow_lane, kCount / 3);
}

}  // namespace
}  // namespace skipjack
