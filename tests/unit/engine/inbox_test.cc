#include "engine/inbox.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

Submission MakeSubmission(SequenceId id) {
  const SequenceRequest request = Request({1, 2, 3}, 4);
  Submission submission;
  submission.sequence =
      std::make_unique<LiveSequence>(id, request, std::make_shared<RecordingSink>(), TimePoint{});
  submission.request = {.sequence = id, .prompt = request.prompt, .max_tokens = 4};
  return submission;
}

TEST(InboxTest, CountsWhoWaitsUntilTheyStartOrEnd) {
  Inbox inbox(2, 1);
  Mail mail;
  EXPECT_TRUE(inbox.Submit(MakeSubmission(1)).ok());
  EXPECT_TRUE(inbox.Submit(MakeSubmission(2)).ok());
  EXPECT_EQ(inbox.Submit(MakeSubmission(3)).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(inbox.Live(), 2);
  EXPECT_EQ(inbox.Stats().pending_submissions, 2);
  inbox.Take(&mail);
  ASSERT_EQ(mail.submissions.size(), 2u);
  EXPECT_EQ(inbox.Stats().pending_submissions, 2);  // not in the published state yet
  inbox.MarkStarted(1);
  inbox.MarkStarted(1);
  EXPECT_TRUE(inbox.Submit(MakeSubmission(4)).ok());
  EXPECT_EQ(inbox.Admit().code(), StatusCode::kResourceExhausted);
  EngineStats stats;
  stats.scheduler.waiting = 1;
  stats.scheduler.running = 1;
  inbox.Publish(stats, {});
  EXPECT_EQ(inbox.Stats().pending_submissions, 1);
  EXPECT_EQ(inbox.Stats().scheduler.waiting, 1);
  const std::vector<SequenceId> ended = {2, 1};
  inbox.Publish(stats, ended);
  EXPECT_EQ(inbox.Live(), 1);
  EXPECT_TRUE(inbox.Admit().ok());
  EXPECT_EQ(inbox.Stats().rejected, 2u);
}

// Started sequences that lost their place must not let the number of live ones grow without bound.
TEST(InboxTest, BoundsWhatLivesAltogether) {
  Inbox inbox(2, 3);
  for (SequenceId id = 1; id <= 5; ++id) {
    ASSERT_TRUE(inbox.Submit(MakeSubmission(id)).ok());
    inbox.MarkStarted(id);
  }
  EXPECT_EQ(inbox.Admit(), Status::ResourceExhausted(
                               "the queue is full: 5 sequences wait, run or are preempted, the limit is 5"));
}

TEST(InboxTest, OneCancellationPerLiveSequence) {
  Inbox inbox(10, 10);
  Mail mail;
  inbox.Cancel(1, Status::Cancelled("unknown"));
  ASSERT_TRUE(inbox.Submit(MakeSubmission(1)).ok());
  inbox.Cancel(1, Status::Cancelled("first"));
  inbox.Cancel(1, Status::Cancelled("second"));
  inbox.Take(&mail);
  ASSERT_EQ(mail.cancellations.size(), 1u);
  EXPECT_EQ(mail.cancellations[0].why, Status::Cancelled("first"));
  inbox.Cancel(1, Status::Cancelled("third"));
  inbox.Take(&mail);
  EXPECT_TRUE(mail.cancellations.empty());
  EXPECT_TRUE(mail.submissions.empty());
}

// A cancellation without a reason would look like success.
TEST(InboxTest, AnOkReasonBecomesCancelled) {
  Inbox inbox(10, 10);
  Mail mail;
  ASSERT_TRUE(inbox.Submit(MakeSubmission(1)).ok());
  inbox.Cancel(1, Status::Ok());
  inbox.Take(&mail);
  EXPECT_EQ(mail.cancellations.at(0).why.code(), StatusCode::kCancelled);
}

TEST(InboxTest, BrokenAndStopped) {
  Inbox inbox(10, 10);
  EXPECT_TRUE(inbox.Broken().ok());
  inbox.Break(Status::Internal("gone"), Status::Unavailable("go elsewhere"));
  EXPECT_EQ(inbox.Admit(), Status::Unavailable("go elsewhere"));
  EXPECT_EQ(inbox.Broken(), Status::Internal("gone"));
  Mail mail;
  inbox.Take(&mail);
  EXPECT_FALSE(mail.stop);
  inbox.Stop();
  EXPECT_EQ(inbox.Admit(), Status::Unavailable("go elsewhere"));  // the first reason stays
  inbox.Take(&mail);
  EXPECT_TRUE(mail.stop);
}

TEST(InboxTest, WaitEndsWithMailOrTheDeadline) {
  ManualClock clock;
  Inbox inbox(10, 10);
  const TimePoint deadline = clock.Now() + std::chrono::seconds(1);
  std::thread advancer([&] { clock.Advance(std::chrono::seconds(1)); });
  inbox.Wait(clock, deadline);
  EXPECT_GE(clock.Now(), deadline);
  advancer.join();
  std::thread submitter([&] { EXPECT_TRUE(inbox.Submit(MakeSubmission(1)).ok()); });
  inbox.Wait(clock, std::nullopt);
  submitter.join();
  inbox.Wait(clock, clock.Now() + std::chrono::seconds(1));  // the mail is still there
  Mail mail;
  inbox.Take(&mail);
  EXPECT_EQ(mail.submissions.size(), 1u);
  std::thread stopper([&] { inbox.Stop(); });
  inbox.Wait(clock, std::nullopt);
  stopper.join();
}

}  // namespace
}  // namespace skipjack::testing
