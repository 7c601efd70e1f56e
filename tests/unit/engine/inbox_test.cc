#include "engine/inbox.h"

#include <gtest/gtest.h>

#include <chrono>
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

Submission Realtime(SequenceId id, TimePoint arrival) {
  Submission submission = MakeSubmission(id);
  submission.request.priority = PriorityClass::kRealtime;
  submission.request.arrival = arrival;
  return submission;
}

constexpr TimePoint At(int milliseconds) {
  return TimePoint(std::chrono::milliseconds(milliseconds));
}

TEST(InboxTest, ARealtimeSubmissionInterruptsTheStepUnderWay) {
  Inbox inbox(10, 10);
  inbox.BeginStep({.ticket = 7}, At(0));
  ASSERT_TRUE(inbox.Submit(MakeSubmission(1)).ok());
  EXPECT_FALSE(inbox.interrupt().IsRequested(7));
  ASSERT_TRUE(inbox.Submit(Realtime(2, At(1))).ok());
  EXPECT_TRUE(inbox.interrupt().IsRequested(7));
  EXPECT_FALSE(inbox.interrupt().IsRequested(8));
}

TEST(InboxTest, AStepThatHasEndedOrNotBegunIsNotInterrupted) {
  Inbox inbox(10, 10);
  Mail mail;
  ASSERT_TRUE(inbox.Submit(Realtime(1, At(0))).ok());
  inbox.Take(&mail);
  inbox.BeginStep({.ticket = 1}, At(0));  // its plan knows the submission
  EXPECT_FALSE(inbox.interrupt().IsRequested(1));
  inbox.EndStep();
  ASSERT_TRUE(inbox.Submit(Realtime(2, At(1))).ok());
  EXPECT_FALSE(inbox.interrupt().IsRequested(1));
  inbox.Take(&mail);
  inbox.BeginStep({.ticket = 2}, At(2));
  EXPECT_FALSE(inbox.interrupt().IsRequested(2));
}

// The plan was made between Take() and BeginStep().
TEST(InboxTest, AStepWhoseSubmissionCameTooLateForItsPlanIsInterruptedAtOnce) {
  Inbox inbox(10, 10);
  Mail mail;
  inbox.Take(&mail);
  ASSERT_TRUE(inbox.Submit(Realtime(1, At(0))).ok());
  inbox.BeginStep({.ticket = 1, .expected_end = At(3), .worth_waiting = std::chrono::milliseconds(5)}, At(0));
  EXPECT_FALSE(inbox.interrupt().IsRequested(1));  // it ends soon
  inbox.EndStep();
  inbox.BeginStep({.ticket = 2, .expected_end = At(9), .worth_waiting = std::chrono::milliseconds(5)}, At(3));
  EXPECT_TRUE(inbox.interrupt().IsRequested(2));
}

TEST(InboxTest, AStepIsNotInterruptedShortlyBeforeItsEnd) {
  const InterruptibleStep step = {
      .ticket = 1, .expected_end = At(100), .worth_waiting = std::chrono::milliseconds(5)};
  EXPECT_TRUE(step.IsWorthInterrupting(At(0)));
  EXPECT_TRUE(step.IsWorthInterrupting(At(95)));
  EXPECT_FALSE(step.IsWorthInterrupting(At(96)));
  EXPECT_FALSE(step.IsWorthInterrupting(At(104)));
  EXPECT_TRUE(step.IsWorthInterrupting(At(105)));  // the prediction was wrong
  EXPECT_TRUE(InterruptibleStep{.ticket = 1}.IsWorthInterrupting(At(0)));
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
