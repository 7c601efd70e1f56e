// Whole answers of the completion routes over real sockets, compared with documents written by hand.
#include <cmath>
#include <string>

#include <gmock/gmock.h>

#include "tests/unit/serve/http/server_fixture.h"

namespace skipjack::http {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class CompletionTest : public ServerTest {
 protected:
  void SetUp() override { StartServer(); }
};

TEST_F(CompletionTest, TextCompletion) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"model": "tiny", "prompt": "Hi", "max_tokens": 2})",
               "X-Request-Id: abc\r\n");
  const auto call = service.TakeCall();
  EXPECT_EQ(call->request.request_id, "abc");
  EXPECT_EQ(call->request.model, "tiny");
  EXPECT_EQ(std::get<std::string>(call->request.prompt), "Hi");
  call->Accept();
  call->Text("Hel");
  call->Text("lo");
  call->Finish(FinishReason::kLength);
  call->Complete();

  const Reply reply = client->ReadReply();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.fields.at("content-type"), "application/json");
  EXPECT_EQ(reply.fields.at("x-request-id"), "abc");
  EXPECT_EQ(reply.json(), json::parse(R"({
    "id": "cmpl-abc", "object": "text_completion", "created": 1700000000, "model": "tiny",
    "choices": [{"index": 0, "text": "Hello", "logprobs": null, "finish_reason": "length", "stop_reason": null}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
              "prompt_tokens_details": {"cached_tokens": 2}},
    "timings": {"queue_seconds": 0.25, "prefill_seconds": 0.5, "decode_seconds": 1.5, "cached_tokens": 2,
                "preemptions": 1}})"));
}

TEST_F(CompletionTest, TimelinesOfSeveralPrompts) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": ["a", "b"], "return_timeline": true, "request_id": "t"})");
  const auto first = service.TakeCall();
  const auto second = service.TakeCall();
  EXPECT_TRUE(first->request.timeline);
  const auto timeline = std::make_shared<Timeline>();
  timeline->Add({.kind = TimelineEvent::Kind::kSubmitted, .level = 2});
  timeline->Add({.kind = TimelineEvent::Kind::kPreempted,
                 .seconds = 0.5,
                 .level = 1,
                 .cause = PreemptionCause::kPolicy,
                 .tokens_lost = 7,
                 .tokens_generated = 3});
  timeline->Add({.kind = TimelineEvent::Kind::kResumed,
                 .seconds = 1.5,
                 .tokens_restored = 4,
                 .tokens_recomputed = 3,
                 .tokens_generated = 3});
  timeline->left_out = 9;
  for (const auto& call : {first, second}) call->Accept();
  for (const auto& call : {second, first}) {  // in whatever order they end
    Completed completed;
    completed.timelines.push_back({0, call == first ? timeline : std::make_shared<Timeline>()});
    call->Finish();
    call->Complete(std::move(completed));
  }
  EXPECT_EQ(client->ReadReply().json()["timeline"], json::parse(R"([
    {"index": 0, "left_out": 9, "events": [
      {"event": "submitted", "seconds": 0.0, "generated_tokens": 0, "level": 2},
      {"event": "preempted", "seconds": 0.5, "generated_tokens": 3, "cause": "policy", "tokens_lost": 7,
       "by_level": 1},
      {"event": "resumed", "seconds": 1.5, "generated_tokens": 3, "tokens_restored": 4, "tokens_recomputed": 3}]},
    {"index": 1, "left_out": 0, "events": []}])"));
}

TEST_F(CompletionTest, ChatCompletionWithTokenIds) {
  const auto client = Connect();
  client->Post("/v1/chat/completions", R"({"messages": [{"role": "user", "content": "Hi"}],
                                           "return_token_ids": true, "request_id": "from-body"})");
  const auto call = service.TakeCall();
  EXPECT_EQ(call->request.request_id, "from-body");
  EXPECT_EQ(std::get<ChatPrompt>(call->request.prompt).variables["messages"][0]["content"], "Hi");
  call->Accept({7, 8});
  call->Text("Yes");
  call->Finish(FinishReason::kStop, 0, "END");
  call->Complete();

  const Reply reply = client->ReadReply();
  EXPECT_EQ(reply.fields.at("x-request-id"), "from-body");
  json expected = json::parse(R"({
    "id": "chatcmpl-from-body", "object": "chat.completion", "created": 1700000000, "model": "tiny",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes", "refusal": null},
                 "logprobs": null, "finish_reason": "stop", "stop_reason": "END", "token_ids": [101]}],
    "usage": {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3,
              "prompt_tokens_details": {"cached_tokens": 2}},
    "prompt_token_ids": [7, 8]})");
  json got = reply.json();
  got.erase("timings");
  EXPECT_EQ(got, expected);
}

TEST_F(CompletionTest, SeveralPromptsTimesSeveralChoices) {
  const auto client = Connect();
  client->Post("/v1/completions",
               R"({"prompt": ["a", "b"], "n": 2, "request_id": "r", "return_token_ids": true})");
  const auto first = service.TakeCall();
  const auto second = service.TakeCall();
  EXPECT_EQ(first->request.request_id, "r-0");
  EXPECT_EQ(second->request.request_id, "r-1");
  EXPECT_EQ(second->request.n, 2);
  // The first prompt is through before the second is even accepted.
  first->Accept({1});
  first->Text("a0", 0);
  first->Text("a1", 1);
  first->Finish(FinishReason::kStop, 1);
  first->Finish(FinishReason::kStop, 0);
  first->Complete();
  second->Accept({2, 3});
  second->Text("b1", 1);
  second->Finish(FinishReason::kLength, 1);
  second->Text("b0", 0);
  second->Finish(FinishReason::kStop, 0);
  second->Complete();

  const json got = client->ReadReply().json();
  ASSERT_EQ(got["choices"].size(), 4u);
  const std::string texts[] = {"a0", "a1", "b0", "b1"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(got["choices"][i]["index"], i);
    EXPECT_EQ(got["choices"][i]["text"], texts[i]);
  }
  EXPECT_EQ(got["choices"][3]["finish_reason"], "length");
  EXPECT_EQ(got["choices"][0]["prompt_token_ids"], json({1}));
  EXPECT_EQ(got["choices"][3]["prompt_token_ids"], json({2, 3}));
  EXPECT_EQ(got["usage"]["prompt_tokens"], 3);
  EXPECT_EQ(got["usage"]["completion_tokens"], 4);
  EXPECT_EQ(got["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

TEST_F(CompletionTest, OneRefusedPromptRefusesTheRequest) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": ["a", "b"], "stream": true})");
  const auto first = service.TakeCall();
  const auto second = service.TakeCall();
  first->Accept();
  first->Text("lost");
  second->Fail(Status::InvalidArgument("prompt has 5000 tokens, the context holds 2048"));
  const Reply reply = client->ReadReply();
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(reply.json()["error"]["param"], "prompt");
  EXPECT_THAT(reply.json()["error"]["message"].get<std::string>(), HasSubstr("5000"));
  EXPECT_EQ(first->AwaitCancel().code(), StatusCode::kCancelled);
}

TEST_F(CompletionTest, MorePromptsThanEverFitAreNoOverload) {
  options.max_prompts = 2;
  StartServer();
  const Reply refused = Post("/v1/completions", R"({"prompt": ["a", "b", "c"]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "prompt");
  EXPECT_THAT(refused.json()["error"]["message"].get<std::string>(), HasSubstr("at most 2 prompts, got 3"));
  EXPECT_EQ(service.started(), 0u);
}

TEST_F(CompletionTest, TenantAndCacheSaltReachTheService) {
  const auto client = Connect();
  for (const std::string path : {"/v1/completions", "/v1/chat/completions"}) {
    client->Post(path,
                 R"({"prompt": "x", "messages": [{"role": "user", "content": "x"}], "cache_salt": "s"})",
                 "X-Skipjack-Tenant: acme\r\n");
    const auto call = service.TakeCall();
    EXPECT_EQ(call->request.tenant, "acme");
    EXPECT_EQ(call->request.cache_salt, "s");
    call->Fail(Status::InvalidArgument("tenant must be shorter"));
    const Reply refused = client->ReadReply();
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(refused.json()["error"]["param"], "tenant");
  }
  client->Post("/v1/completions", R"({"prompt": "x"})");
  const auto call = service.TakeCall();
  EXPECT_EQ(call->request.tenant, "");
  EXPECT_EQ(call->request.cache_salt, "");
  call->Fail(Status::Internal("enough"));
  client->ReadReply();
}

TEST_F(CompletionTest, EchoPutsThePromptInFront) {
  const auto client = Connect();
  for (const auto& [prompt, echoed] : {std::pair(R"("Hi")", "Hi"), std::pair("[72, 105]", "Hi")}) {
    client->Post("/v1/completions", std::string(R"({"echo": true, "prompt": )") + prompt + "}");
    const auto call = service.TakeCall();
    call->Accept();
    call->Text("!");
    call->Finish();
    call->Complete();
    EXPECT_EQ(client->ReadReply().json()["choices"][0]["text"], std::string(echoed) + "!");
  }
  client->Post("/v1/completions", R"({"echo": true, "prompt": [300]})");
  EXPECT_EQ(client->ReadReply().status, 400);
  EXPECT_EQ(service.started(), 2u);
}

TokenPiece Piece(TokenId id, std::string bytes, float logprob,
                 std::vector<TokenPiece::Alternative> top = {}) {
  return {.id = id, .bytes = std::move(bytes), .logprob = logprob, .top = std::move(top), .ends_text = false};
}

TEST_F(CompletionTest, LogprobsOfCompletions) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x", "logprobs": 2})");
  const auto call = service.TakeCall();
  EXPECT_EQ(call->request.top_logprobs, 2);
  call->Accept();
  // "é" comes as one token, the emoji as two halves.
  call->Delta({.choice = 0,
               .text = "é",
               .tokens = {Piece(1, "\xc3\xa9", -0.5f, {{2, "e", -1.5f}, {1, "\xc3\xa9", -0.5f}})}});
  call->Delta({.choice = 0,
               .text = "\xf0\x9f\x98\x80!",
               .tokens = {Piece(3, "\xf0\x9f", -INFINITY),
                          Piece(4, "\x98\x80", -0.25f, {{5, "\x98\x81", -2.0f}}), Piece(6, "!", -0.125f)}});
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().json()["choices"][0]["logprobs"], json::parse(R"({
    "text_offset": [0, 1, 1, 2],
    "token_logprobs": [-0.5, -9999.0, -0.25, -0.125],
    "tokens": ["é", "bytes:\\xf0\\x9f", "bytes:\\x98\\x80", "!"],
    "top_logprobs": [{"é": -0.5, "e": -1.5}, {"bytes:\\xf0\\x9f": -9999.0},
                     {"bytes:\\x98\\x80": -0.25, "bytes:\\x98\\x81": -2.0}, {"!": -0.125}]})"));
}

TEST_F(CompletionTest, LogprobsOfChatHaveRawBytes) {
  const auto client = Connect();
  client->Post("/v1/chat/completions",
               R"({"messages": [{"role": "user", "content": "x"}], "logprobs": true, "top_logprobs": 1})");
  const auto call = service.TakeCall();
  EXPECT_EQ(call->request.top_logprobs, 1);
  call->Accept();
  call->Delta({.choice = 0, .text = "", .tokens = {Piece(3, "\xf0\x9f", NAN, {{9, "a", -INFINITY}})}});
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().json()["choices"][0]["logprobs"], json::parse(R"({
    "content": [{"token": "\ufffd", "logprob": -9999.0, "bytes": [240, 159],
                 "top_logprobs": [{"token": "a", "logprob": -9999.0, "bytes": [97]}]}],
    "refusal": null})"));
}

TokenPiece EndPiece(TokenId id) {
  return {.id = id, .bytes = "</s>", .logprob = -0.5f, .top = {}, .ends_text = true};
}

// The token that ended the generation: no text, no log-probability, but one of the ids where ids are asked
// for.
TEST_F(CompletionTest, EndTokens) {
  const auto client = Connect();
  const auto choice = [&](const std::string& fields) {
    client->Post("/v1/completions",
                 R"({"prompt": "x", "logprobs": 0, "stop_token_ids": [7], )" + fields + "}");
    const auto call = service.TakeCall();
    call->Accept();
    call->Text("a");
    call->Delta({.choice = 0, .text = "", .tokens = {EndPiece(7)}});
    call->Finish(FinishReason::kStop, 0, "", 7);
    call->Complete();
    return client->ReadReply().json()["choices"][0];
  };
  json plain = choice(R"("n": 1)");
  EXPECT_EQ(plain["text"], "a");
  EXPECT_EQ(plain["stop_reason"], 7);
  EXPECT_EQ(plain["logprobs"]["tokens"], json({"a"}));
  json with_ids = choice(R"("return_token_ids": true)");
  EXPECT_EQ(with_ids["token_ids"], json({101, 7}));
  EXPECT_EQ(with_ids["logprobs"]["tokens"], json({"a", "</s>"}));
}

TEST_F(CompletionTest, TheModelsOwnEndIsNoStopReason) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x"})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Finish(FinishReason::kStop, 0, "", 2);
  call->Complete();
  EXPECT_TRUE(client->ReadReply().json()["choices"][0]["stop_reason"].is_null());
}

TEST_F(CompletionTest, BrokenTextAndNumbersNeverLeave) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x"})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Delta({.choice = 0, .text = "a\xff\xc3", .tokens = {}});
  call->Finish();
  Completed completed;
  completed.timings.queue_seconds = NAN;
  completed.timings.decode_seconds = INFINITY;
  call->Complete(completed);
  const json got = client->ReadReply().json();
  EXPECT_EQ(got["choices"][0]["text"], "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_TRUE(got["timings"]["queue_seconds"].is_null());
  EXPECT_TRUE(got["timings"]["decode_seconds"].is_null());
}

TEST_F(CompletionTest, UnknownFieldsGetAWarningOrA400) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x", "max_token": 4})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().fields.at("warning"),
            "299 skipjack \"unknown fields were ignored: max_token\"");

  client->Post("/v1/completions", R"({"prompt": "x", "max_token": 4})", "X-Skipjack-Strict: true\r\n");
  const Reply refused = client->ReadReply();
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.json()["error"]["param"], "max_token");
}

TEST_F(CompletionTest, RefusalsOfTheServiceKeepTheirMeaning) {
  const auto client = Connect();
  const auto refuse = [&](Status status, std::optional<int> retry_after = std::nullopt) {
    client->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
    service.TakeCall()->Fail(std::move(status), retry_after);
    return client->ReadReply();
  };
  EXPECT_EQ(refuse(Status::InvalidArgument("max_tokens must be at least 1, got -1")).json()["error"]["param"],
            "max_tokens");
  const Reply unknown = refuse(Status::NotFound("model 'x' does not exist; there is: tiny"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.json()["error"]["code"], "model_not_found");
  const Reply full = refuse(Status::ResourceExhausted("1024 requests are waiting already"), 3);
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.fields.at("retry-after"), "3");
  EXPECT_EQ(refuse(Status::ResourceExhausted("full")).fields.at("retry-after"), "1");
  EXPECT_EQ(refuse(Status::Unavailable("model 'tiny' is loading")).status, 503);
  EXPECT_EQ(refuse(Status::DeadlineExceeded("late")).status, 504);
  EXPECT_EQ(refuse(Status::Internal("non-finite logits")).status, 500);
}

TEST_F(CompletionTest, AnImpossibleChoiceEndsTheRequestOnly) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x"})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Text("x", 5);
  EXPECT_EQ(client->ReadReply().status, 500);
  EXPECT_FALSE(call->AwaitCancel().ok());
  client->Get("/health/live");
  EXPECT_EQ(client->ReadReply().status, 200);
}

TEST_F(CompletionTest, CompletedWithoutAcceptedIsAnError) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x"})");
  service.TakeCall()->Complete();
  EXPECT_EQ(client->ReadReply().status, 500);
}

class WorkerTest : public ServerTest {
 protected:
  void SetUp() override {
    options.inline_bytes = 0;  // everything goes to the workers
    StartServer();
  }
};

TEST_F(WorkerTest, ParsesAndRendersElsewhere) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x"})");
  const auto call = service.TakeCall();
  EXPECT_EQ(service.worker_jobs, 1);
  call->Accept();
  call->Text("y");
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().json()["choices"][0]["text"], "y");
  EXPECT_EQ(service.worker_jobs, 2);
  client->Post("/v1/completions", "{");
  EXPECT_EQ(client->ReadReply().status, 400);
}

TEST_F(WorkerTest, AFullQueueIsAnswered429) {
  service.workers_full = true;
  const auto client = Connect();
  for (const std::string_view path :
       {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"}) {
    client->Post(path, "{}");
    const Reply reply = client->ReadReply();
    EXPECT_EQ(reply.status, 429) << path;
    EXPECT_EQ(reply.fields.at("retry-after"), "1");
  }
  EXPECT_EQ(Get("/health/live").status, 200);
}

TEST_F(WorkerTest, AFinishedAnswerIsSentThoughTheQueueIsFull) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x"})");
  const auto call = service.TakeCall();
  service.workers_full = true;
  call->Accept();
  call->Text("y");
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().status, 200);
}

}  // namespace
}  // namespace skipjack::http
