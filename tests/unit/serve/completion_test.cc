// What becomes of one request, from Start() to OnCompleted.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/serve/service_fixture.h"

namespace skipjack {
namespace {

using std::chrono::seconds;
using testing::ByteTokenizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RecordingListener;

using CompletionTest = testing::ServiceTest;

TEST_F(CompletionTest, ATextRequestRunsFromPromptToUsage) {
  CompletionRequest request = Text("hi");
  request.request_id = "mine";
  const auto listener = Start(std::move(request));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  const SequenceRequest submitted = engine_->RequestOf(id);
  EXPECT_THAT(submitted.prompt, ElementsAre(ByteTokenizer::kBos, 'h', 'i'));
  EXPECT_EQ(submitted.sampling.max_tokens, 16);
  EXPECT_THAT(submitted.end_tokens, ElementsAre(ByteTokenizer::kEos, ByteTokenizer::kEot));
  EXPECT_EQ(submitted.request_id, "mine");
  EXPECT_FALSE(submitted.deadline);
  EXPECT_EQ(service().LiveRequests(), 1);

  engine_->Generate(id, "yes");
  engine_->Finish(id, FinishReason::kLength, {},
                  {.queue_seconds = 1, .prefill_seconds = 2, .decode_seconds = 3, .cached_tokens = 2});
  const Completed completed = listener->WaitUntilCompleted();
  EXPECT_TRUE(completed.status.ok());
  EXPECT_EQ(completed.usage.prompt_tokens, 3);
  EXPECT_EQ(completed.usage.completion_tokens, 3);
  EXPECT_EQ(completed.usage.cached_tokens, 2);
  EXPECT_EQ(completed.timings.decode_seconds, 3);
  EXPECT_FALSE(completed.retry_after_seconds);

  ASSERT_TRUE(listener->accepted());
  EXPECT_EQ(listener->accepted()->request_id, "mine");
  EXPECT_EQ(listener->accepted()->model, "bytes");
  EXPECT_EQ(listener->accepted()->prompt_tokens, submitted.prompt);
  const RecordingListener::Choice choice = listener->choices().at(0);
  EXPECT_EQ(choice.text, "yes");
  ASSERT_EQ(choice.tokens.size(), 3u);
  EXPECT_EQ(choice.tokens[0].id, 'y');
  EXPECT_EQ(choice.tokens[0].bytes, "y");
  ASSERT_TRUE(choice.finish);
  EXPECT_EQ(choice.finish->reason, FinishReason::kLength);
  EXPECT_EQ(choice.finish->generated_tokens, 3);
  EXPECT_FALSE(choice.finish->stop_token);
  EXPECT_EQ(listener->violation(), "");
  EXPECT_EQ(service().LiveRequests(), 0);
}

TEST_F(CompletionTest, ACharacterIsSentWholeWithItsTokens) {
  const auto listener = Start(Text("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, 0xC3);
  EXPECT_TRUE(listener->choices().empty());
  engine_->Generate(id, 0xA9);
  listener->WaitForTokens(0, 2);
  EXPECT_EQ(listener->choices().at(0).text, "\xC3\xA9");
  EXPECT_EQ(listener->choices().at(0).tokens[0].bytes, "\xC3");
  engine_->Generate(id, 0xF0);  // never completed
  engine_->Finish(id, FinishReason::kLength);
  listener->WaitUntilCompleted();
  EXPECT_EQ(listener->choices().at(0).text, "\xC3\xA9\xEF\xBF\xBD");
  EXPECT_EQ(listener->choices().at(0).tokens.size(), 3u);
}

TEST_F(CompletionTest, TextIdsAndLogprobsAreCutTogetherAtAStopString) {
  CompletionRequest request = Text("x");
  request.stop = {"STOP"};
  request.top_logprobs = 1;
  const auto listener = Start(std::move(request));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  EXPECT_EQ(engine_->RequestOf(id).sampling.top_logprobs, 1);
  const std::string output = "ab STOP";
  for (std::size_t i = 0; i < output.size(); ++i) {
    const TokenId token = static_cast<unsigned char>(output[i]);
    const bool goes_on = engine_->Generate(id, token, false, -0.5f, {{token, -0.5f}});
    EXPECT_EQ(goes_on, i + 1 < output.size());
  }
  EXPECT_TRUE(listener->WaitUntilCompleted().status.ok());
  const RecordingListener::Choice choice = listener->choices().at(0);
  EXPECT_EQ(choice.text, "ab ");
  EXPECT_EQ(choice.finish->reason, FinishReason::kStop);
  EXPECT_EQ(choice.finish->stop_string, "STOP");
  // Up to and including the token that completed the match, each with its own log-probabilities.
  ASSERT_EQ(choice.tokens.size(), output.size());
  for (std::size_t i = 0; i < output.size(); ++i) {
    EXPECT_EQ(choice.tokens[i].id, static_cast<unsigned char>(output[i]));
    EXPECT_EQ(choice.tokens[i].logprob, -0.5f);
    ASSERT_EQ(choice.tokens[i].top.size(), 1u);
    EXPECT_EQ(choice.tokens[i].top[0].bytes, output.substr(i, 1));
  }
}

TEST_F(CompletionTest, AnEndTokenIsCountedAndListedButNotText) {
  const auto listener = Start(Text("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, 'a');
  engine_->Generate(id, ByteTokenizer::kEot, /*ends_text=*/true);
  EXPECT_EQ(listener->WaitUntilCompleted().usage.completion_tokens, 2);
  const RecordingListener::Choice choice = listener->choices().at(0);
  EXPECT_EQ(choice.text, "a");
  ASSERT_EQ(choice.tokens.size(), 2u);
  EXPECT_FALSE(choice.tokens[0].ends_text);
  EXPECT_TRUE(choice.tokens[1].ends_text);
  EXPECT_EQ(choice.tokens[1].bytes, "<eot>");
  EXPECT_EQ(choice.finish->stop_token, ByteTokenizer::kEot);
}

TEST_F(CompletionTest, ChoicesShareTheRequestAndDrawWithTheirOwnSeeds) {
  CompletionRequest request = Text("x");
  request.n = 3;
  request.seed = 40;
  request.tenant = "acme";
  const auto listener = Start(std::move(request));
  const std::vector<SequenceId> ids = engine_->WaitForSequences(3);
  for (std::size_t i = 0; i < 3; ++i) {
    const SequenceRequest submitted = engine_->RequestOf(ids[i]);
    EXPECT_EQ(submitted.sampling.seed, 40 + i);
    EXPECT_EQ(submitted.tenant, "acme");
    EXPECT_EQ(submitted.cache_salt, "acme");
  }
  engine_->Generate(ids[1], "one");
  engine_->Generate(ids[0], "zero");
  engine_->Generate(ids[2], "two");
  engine_->Finish(ids[2], FinishReason::kLength, {},
                  {.queue_seconds = 1, .decode_seconds = 5, .cached_tokens = 7});
  engine_->Finish(ids[0], FinishReason::kLength, {},
                  {.queue_seconds = 1, .decode_seconds = 9, .cached_tokens = 0});
  EXPECT_FALSE(listener->completed());
  engine_->Finish(ids[1], FinishReason::kLength, {},
                  {.queue_seconds = 2, .decode_seconds = 3, .cached_tokens = 5});
  const Completed completed = listener->WaitUntilCompleted();
  EXPECT_EQ(completed.usage.prompt_tokens, 2);
  EXPECT_EQ(completed.usage.completion_tokens, 10);
  EXPECT_EQ(completed.usage.cached_tokens, 0);
  EXPECT_EQ(completed.timings.decode_seconds, 9);
  EXPECT_EQ(listener->choices().at(0).text, "zero");
  EXPECT_EQ(listener->choices().at(1).text, "one");
  EXPECT_EQ(listener->choices().at(2).text, "two");
  EXPECT_EQ(listener->violation(), "");
}

TEST_F(CompletionTest, OneFailedChoiceFailsTheRequestAndEndsTheOthers) {
  CompletionRequest request = Text("x");
  request.n = 3;
  const auto listener = Start(std::move(request));
  const std::vector<SequenceId> ids = engine_->WaitForSequences(3);
  listener->WaitUntilAccepted();
  engine_->Generate(ids[0], "a");
  engine_->Finish(ids[1], FinishReason::kError, Status::Internal("logits are not finite"));
  const Completed completed = listener->WaitUntilCompleted();
  EXPECT_EQ(completed.status, Status::Internal("logits are not finite"));
  EXPECT_EQ(completed.usage.completion_tokens, 1);
  EXPECT_EQ(engine_->CancelledWith(ids[0]).code(), StatusCode::kCancelled);
  EXPECT_EQ(engine_->CancelledWith(ids[2]).code(), StatusCode::kCancelled);
  EXPECT_EQ(engine_->Live(), 0);
  EXPECT_FALSE(listener->choices().at(0).finish);
}

TEST_F(CompletionTest, ARefusedChoiceTakesBackTheOthers) {
  int submissions = 0;
  engine_->on_submit = [&](const SequenceRequest&) {
    return ++submissions == 3 ? Status::ResourceExhausted("the queue is full") : Status();
  };
  CompletionRequest request = Text("x");
  request.n = 4;
  const auto listener = Start(std::move(request));
  const Completed completed = listener->WaitUntilCompleted();
  EXPECT_EQ(completed.status, Status::ResourceExhausted("the queue is full"));
  EXPECT_EQ(completed.retry_after_seconds, 1);
  EXPECT_EQ(submissions, 3);
  EXPECT_EQ(engine_->Live(), 0);
  EXPECT_FALSE(listener->accepted());
  EXPECT_TRUE(listener->choices().empty());
  EXPECT_EQ(listener->violation(), "");
}

TEST_F(CompletionTest, CompletedWaitsUntilTheWorkIsReallyGone) {
  engine_->finish_on_cancel = false;
  std::shared_ptr<CompletionCall> call;
  CompletionRequest request = Text("x");
  request.n = 2;
  const auto listener = Start(std::move(request), &call);
  const std::vector<SequenceId> ids = engine_->WaitForSequences(2);
  call->Cancel(Status::Cancelled("the client left"));
  call->Cancel(Status::Internal("too late to matter"));
  engine_->WaitForCancelled(2);
  EXPECT_FALSE(listener->completed());
  EXPECT_EQ(service().LiveRequests(), 1);
  engine_->Generate(ids[0], "goes nowhere");
  engine_->FinishCancelled();
  EXPECT_EQ(listener->WaitUntilCompleted().status, Status::Cancelled("the client left"));
  EXPECT_TRUE(listener->choices().empty());
  EXPECT_EQ(service().LiveRequests(), 0);
}

TEST_F(CompletionTest, TheEngineMayBeFasterThanTheSubmitter) {
  engine_->on_submitted = [&](SequenceId id) {
    engine_->Generate(id, "ok");
    engine_->Finish(id, FinishReason::kLength);
  };
  CompletionRequest request = Text("x");
  request.n = 2;
  const auto listener = Start(std::move(request));
  EXPECT_TRUE(listener->WaitUntilCompleted().status.ok());
  EXPECT_EQ(listener->choices().at(0).text, "ok");
  EXPECT_EQ(listener->choices().at(1).text, "ok");
  EXPECT_EQ(listener->violation(), "");
}

TEST_F(CompletionTest, ACancelledRequestInTheQueueEndsWithoutTheWorker) {
  const auto gate = BlockWorker();
  std::shared_ptr<CompletionCall> call;
  const auto listener = Start(Text("x"), &call);
  call->Cancel(Status::Cancelled("the client left"));
  EXPECT_EQ(listener->WaitUntilCompleted().status, Status::Cancelled("the client left"));
  EXPECT_EQ(service().LiveRequests(), 0);
  gate->Set();
  const auto next = Start(Text("y"));
  EXPECT_THAT(engine_->RequestOf(engine_->WaitForSequences(1)[0]).prompt,
              ElementsAre(ByteTokenizer::kBos, 'y'));
  call->Cancel(Status::Cancelled("again"));
  EXPECT_EQ(engine_->Live(), 1);
}

TEST_F(CompletionTest, TheDeadlineHoldsWhileTheRequestWaitsForTokenising) {
  const auto gate = BlockWorker();
  CompletionRequest request = Text("x");
  request.timeout = seconds(10);
  const auto listener = Start(std::move(request));
  clock_.Advance(seconds(9));
  EXPECT_FALSE(listener->completed());
  clock_.Advance(seconds(1));
  EXPECT_EQ(listener->WaitUntilCompleted().status.code(), StatusCode::kDeadlineExceeded);
  gate->Set();
}

TEST_F(CompletionTest, TheEngineGetsTheDeadlineAndTheTimerLetsGo) {
  CompletionRequest request = Text("x");
  request.timeout = seconds(10);
  const TimePoint deadline = clock_.Now() + seconds(10);
  const auto listener = Start(std::move(request));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  EXPECT_EQ(engine_->RequestOf(id).deadline, deadline);
  clock_.Advance(seconds(11));  // from here on the engine's to see to
  engine_->Generate(id, "z");
  engine_->Finish(id, FinishReason::kError, Status::DeadlineExceeded("the deadline passed"));
  EXPECT_EQ(listener->WaitUntilCompleted().status.code(), StatusCode::kDeadlineExceeded);
}

TEST_F(CompletionTest, TheServersTimeoutBoundsTheClients) {
  options_.max_timeout = seconds(5);
  Start(Text("x"));
  CompletionRequest longer = Text("x");
  longer.timeout = seconds(3600);
  Start(std::move(longer));
  CompletionRequest shorter = Text("x");
  shorter.timeout = seconds(2);
  Start(std::move(shorter));
  const std::vector<SequenceId> ids = engine_->WaitForSequences(3);
  EXPECT_EQ(engine_->RequestOf(ids[0]).deadline, clock_.Now() + seconds(5));
  EXPECT_EQ(engine_->RequestOf(ids[1]).deadline, clock_.Now() + seconds(5));
  EXPECT_EQ(engine_->RequestOf(ids[2]).deadline, clock_.Now() + seconds(2));
}

TEST_F(CompletionTest, AnEndlessTimeoutIsNone) {
  CompletionRequest request = Text("x");
  request.timeout = Duration::max();
  Start(std::move(request));
  EXPECT_FALSE(engine_->RequestOf(engine_->WaitForSequences(1)[0]).deadline);
}

TEST_F(CompletionTest, AListenerMayCancelFromInsideACall) {
  auto listener = std::make_shared<RecordingListener>();
  std::shared_ptr<CompletionCall> call;
  testing::Event known;
  listener->on_event = [&](const std::string& event) {
    if (event != "OnDelta") return;
    known.Wait();
    call->Cancel(Status::Cancelled("enough"));
  };
  call = service().Start(Text("x"), listener);
  known.Set();
  engine_->Generate(engine_->WaitForSequences(1)[0], "abc");
  EXPECT_EQ(listener->WaitUntilCompleted().status, Status::Cancelled("enough"));
  EXPECT_EQ(listener->violation(), "");
}

TEST_F(CompletionTest, ChoicesThatEndOnDifferentThreadsEndTheRequestOnce) {
  for (int round = 0; round < 200; ++round) {
    CompletionRequest request = Text("x");
    request.n = 4;
    std::shared_ptr<CompletionCall> call;
    const auto listener = Start(std::move(request), &call);
    std::vector<std::thread> threads;
    for (const SequenceId id : engine_->WaitForSequences(4)) {
      threads.emplace_back([this, id] {
        engine_->Generate(id, "some text");
        engine_->Finish(id, FinishReason::kLength);
      });
    }
    if (round % 2 == 1) call->Cancel(Status::Cancelled("in between"));
    listener->WaitUntilCompleted();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(listener->violation(), "");
    EXPECT_EQ(service().LiveRequests(), 0);
  }
}

}  // namespace
}  // namespace skipjack
