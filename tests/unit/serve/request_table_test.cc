#include "serve/request_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "serve/completion_session.h"
#include "tests/support/recording_listener.h"

namespace skipjack {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RequestTableTest, BoundsWhatIsLive) {
  RequestTable table(2);
  const auto a = table.Enter();
  const auto b = table.Enter();
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(table.Enter());
  EXPECT_EQ(table.live(), 2);
  table.Leave(*a, std::nullopt);
  EXPECT_TRUE(table.Enter());
}

TEST(RequestTableTest, RetryAfterFollowsHowLongRequestsTake) {
  RequestTable table(10);
  EXPECT_EQ(table.RetryAfterSeconds(), 1);  // nothing known yet
  const auto serve = [&](Duration total) { table.Leave(*table.Enter(), total); };
  serve(milliseconds(6500));
  EXPECT_EQ(table.RetryAfterSeconds(), 7);
  for (int i = 0; i < 200; ++i) serve(milliseconds(100));
  EXPECT_EQ(table.RetryAfterSeconds(), 1);
  for (int i = 0; i < 200; ++i) serve(seconds(500));
  EXPECT_EQ(table.RetryAfterSeconds(), 60);
  table.Leave(*table.Enter(), std::nullopt);  // was refused: says nothing
  EXPECT_EQ(table.RetryAfterSeconds(), 60);
}

TEST(RequestTableTest, FindsByAgeAndById) {
  RequestTable table(10);
  const SystemClock clock;
  TimerThread timer(clock);
  std::vector<std::shared_ptr<CompletionSession>> sessions;
  for (const char* id : {"x", "y", "x"}) {
    const auto key = *table.Enter();
    sessions.push_back(std::make_shared<CompletionSession>(
        CompletionSession::Identity{
            .key = key, .request_id = id, .model = {}, .tenant = {}, .start = {}, .deadline = {}},
        std::make_shared<testing::RecordingListener>(), table, timer, clock));
    table.Put(key, sessions.back());
  }
  EXPECT_EQ(table.Oldest(2), (std::vector{sessions[0], sessions[1]}));
  EXPECT_EQ(table.WithId("x"), (std::vector{sessions[0], sessions[2]}));
  EXPECT_TRUE(table.WithId("z").empty());
  for (const auto& session : sessions) session->Refuse(Status::Internal("over"), std::nullopt);
  EXPECT_TRUE(table.Oldest(10).empty());
  table.WaitUntilEmpty();
}

TEST(RequestTableTest, WaitsForDeliveryNotOnlyForTheEnd) {
  RequestTable table(1);
  const auto key = *table.Enter();
  table.Leave(key, std::nullopt);
  std::atomic<bool> delivered{false};
  std::thread other([&] {
    delivered = true;
    table.Delivered();
  });
  table.WaitUntilEmpty();
  EXPECT_TRUE(delivered);
  other.join();
}

}  // namespace
}  // namespace skipjack
