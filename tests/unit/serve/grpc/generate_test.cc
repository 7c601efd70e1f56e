// Generate over real sockets.
#include <string>
#include <vector>

#include "tests/unit/serve/grpc/grpc_fixture.h"

namespace skipjack {
namespace {

using std::chrono::milliseconds;
using testing::ByteTokenizer;
using testing::ClientStream;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GenerateTest : public testing::GrpcTest {
 protected:
  // The answer to a request that must be refused.
  grpc::Status Refused(const v1::GenerateRequest& request) {
    const auto stream = Generate(request);
    const grpc::Status status = stream->Drain();
    EXPECT_FALSE(stream->started);
    return status;
  }
};

TEST_F(GenerateTest, TheTimelineComesAtTheEndWhereItWasAskedFor) {
  StartServer();
  v1::GenerateRequest request = Prompt("hi");
  request.set_return_timeline(true);
  const auto stream = Generate(request);
  const SequenceId id = engine_->WaitForSequences(1)[0];
  EXPECT_TRUE(engine_->RequestOf(id).timeline);
  const auto timeline = std::make_shared<Timeline>();
  using Kind = TimelineEvent::Kind;
  timeline->Add({.kind = Kind::kSubmitted, .level = 2});
  timeline->Add({.kind = Kind::kScheduled, .seconds = 0.25});
  timeline->Add({.kind = Kind::kFirstToken, .seconds = 0.5, .tokens_generated = 1});
  timeline->Add({.kind = Kind::kLevel, .seconds = 0.75, .level = 3, .tokens_generated = 1});
  timeline->Add({.kind = Kind::kPreempted,
                 .seconds = 1,
                 .level = 1,
                 .cause = PreemptionCause::kPolicy,
                 .tokens_lost = 7});
  timeline->Add({.kind = Kind::kResumed, .seconds = 2, .tokens_restored = 4, .tokens_recomputed = 3});
  timeline->Add({.kind = Kind::kFinished, .seconds = 3, .tokens_generated = 1});
  timeline->left_out = 5;
  engine_->Finish(id, FinishReason::kLength, {}, {}, timeline);
  EXPECT_TRUE(stream->Drain().ok());
  ASSERT_TRUE(stream->completed);
  ASSERT_EQ(stream->completed->timelines_size(), 1);
  const v1::Timeline& got = stream->completed->timelines(0);
  EXPECT_EQ(got.choice(), 0);
  EXPECT_EQ(got.left_out(), 5);
  ASSERT_EQ(got.events_size(), 7);
  EXPECT_EQ(got.events(0).submitted().level(), 2);
  EXPECT_TRUE(got.events(1).has_scheduled());
  EXPECT_EQ(got.events(2).generated_tokens(), 1);
  EXPECT_TRUE(got.events(2).has_first_token());
  EXPECT_EQ(got.events(3).level().level(), 3);
  EXPECT_EQ(got.events(4).preempted().cause(), v1::PREEMPTION_CAUSE_POLICY);
  EXPECT_EQ(got.events(4).preempted().by_level(), 1);
  EXPECT_EQ(got.events(4).preempted().tokens_lost(), 7);
  EXPECT_EQ(got.events(5).resumed().tokens_restored(), 4);
  EXPECT_EQ(got.events(5).resumed().tokens_recomputed(), 3);
  EXPECT_TRUE(got.events(6).has_finished());
  EXPECT_DOUBLE_EQ(got.events(6).seconds(), 3);
}

TEST_F(GenerateTest, StreamsTextThenFinishUsageAndTimings) {
  StartServer();
  v1::GenerateRequest request = Prompt("hi");
  request.set_model("bytes");
  request.set_tenant("acme");
  request.set_priority(v1::PRIORITY_CLASS_BATCH);
  request.set_return_prompt_token_ids(true);
  const auto stream = Generate(request);
  const SequenceId id = engine_->WaitForSequences(1)[0];
  EXPECT_EQ(engine_->RequestOf(id).priority, PriorityClass::kBatch);
  EXPECT_EQ(engine_->RequestOf(id).tenant, "acme");

  const auto first = stream->Read();  // before anything was generated
  ASSERT_TRUE(first && first->has_started());
  EXPECT_EQ(first->started().model(), "bytes");
  EXPECT_EQ(first->started().prompt_tokens(), 3);
  EXPECT_THAT(first->started().prompt_token_ids(), ElementsAre(ByteTokenizer::kBos, 'h', 'i'));
  engine_->Generate(id, 'a');
  const auto second = stream->Read();  // at once, not at the end
  ASSERT_TRUE(second);
  ASSERT_EQ(second->deltas_size(), 1);
  EXPECT_EQ(second->deltas(0).text(), "a");
  EXPECT_EQ(second->deltas(0).token_count(), 1);
  EXPECT_EQ(second->deltas(0).tokens_size(), 0);  // not asked for
  engine_->Generate(id, "bc");
  engine_->Finish(
      id, FinishReason::kLength, {},
      {.queue_seconds = 1, .prefill_seconds = 2, .decode_seconds = 3, .cached_tokens = 1, .preemptions = 4});
  EXPECT_TRUE(stream->Drain().ok());
  EXPECT_EQ(stream->text[0], "bc");
  EXPECT_EQ(stream->finished[0].reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(stream->finished[0].generated_tokens(), 3);
  ASSERT_TRUE(stream->completed);
  EXPECT_EQ(stream->completed->usage().prompt_tokens(), 3);
  EXPECT_EQ(stream->completed->usage().completion_tokens(), 3);
  EXPECT_EQ(stream->completed->usage().cached_tokens(), 1);
  EXPECT_EQ(stream->completed->timings().prefill_seconds(), 2);
  EXPECT_EQ(stream->completed->timings().preemptions(), 4);
}

TEST_F(GenerateTest, TokensCarryTheirBytesAndLogprobs) {
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  request.mutable_sampling()->set_top_logprobs(1);
  const auto stream = Generate(request);
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, 0xC3, false, -1.5f, {{'q', -0.25f}});
  engine_->Generate(id, 0xA9, false, -2.5f);
  engine_->Generate(id, ByteTokenizer::kEos, /*ends_text=*/true);
  EXPECT_TRUE(stream->Drain().ok());
  EXPECT_EQ(stream->text[0], "\xC3\xA9");
  EXPECT_EQ(stream->token_count[0], 3);
  ASSERT_EQ(stream->tokens[0].size(), 3u);
  const v1::Token& token = stream->tokens[0][0];
  EXPECT_EQ(token.id(), 0xC3);
  EXPECT_EQ(token.bytes(), "\xC3");
  EXPECT_EQ(token.logprob(), -1.5f);
  ASSERT_EQ(token.top_size(), 1);
  EXPECT_EQ(token.top(0).bytes(), "q");
  EXPECT_EQ(token.top(0).logprob(), -0.25f);
  EXPECT_FALSE(token.ends_text());
  EXPECT_TRUE(stream->tokens[0][2].ends_text());
  EXPECT_EQ(stream->finished[0].stop_token(), ByteTokenizer::kEos);
  EXPECT_EQ(stream->finished[0].reason(), v1::FINISH_REASON_STOP);
}

TEST_F(GenerateTest, TokensWithoutLogprobsHaveNone) {
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  request.set_return_tokens(true);
  const auto stream = Generate(request);
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, 'a');
  engine_->Finish(id, FinishReason::kLength);
  EXPECT_TRUE(stream->Drain().ok());
  ASSERT_EQ(stream->tokens[0].size(), 1u);
  EXPECT_EQ(stream->tokens[0][0].bytes(), "a");
  EXPECT_FALSE(stream->tokens[0][0].has_logprob());
}

TEST_F(GenerateTest, SeveralChoicesStreamSideBySide) {
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  request.mutable_sampling()->set_n(3);
  request.mutable_sampling()->set_seed(7);
  request.mutable_sampling()->add_stop("b");
  const auto stream = Generate(request);
  const std::vector<SequenceId> ids = engine_->WaitForSequences(3);
  EXPECT_EQ(engine_->RequestOf(ids[2]).sampling.seed, 9u);
  engine_->Generate(ids[2], "two");
  engine_->Generate(ids[0], "ab");
  engine_->Generate(ids[1], "one");
  engine_->Finish(ids[1], FinishReason::kLength);
  engine_->Finish(ids[2], FinishReason::kLength);
  EXPECT_TRUE(stream->Drain().ok());
  EXPECT_EQ(stream->text, (std::map<int, std::string>{{0, "a"}, {1, "one"}, {2, "two"}}));
  EXPECT_EQ(stream->finished[0].stop_string(), "b");
  EXPECT_FALSE(stream->finished[1].has_stop_string());
  EXPECT_EQ(stream->completed->usage().completion_tokens(), 8);
}

TEST_F(GenerateTest, EverySamplingFieldArrives) {
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_temperature(0.5);
  sampling.set_top_k(3);
  sampling.set_top_p(0.25);
  sampling.set_min_p(0.125);
  sampling.set_typical_p(0.75);
  sampling.set_repetition_penalty(1.5);
  sampling.set_presence_penalty(-1);
  sampling.set_frequency_penalty(2);
  v1::LogitBias* bias = sampling.add_logit_bias();
  bias->set_token(65);
  bias->set_bias(-7);
  sampling.set_seed(11);
  sampling.set_max_tokens(9);
  sampling.set_min_tokens(2);
  sampling.set_ignore_eos(true);
  sampling.add_stop_token_ids(66);
  request.set_add_special_tokens(false);
  const auto stream = Generate(request);
  const SequenceRequest submitted = engine_->RequestOf(engine_->WaitForSequences(1)[0]);
  const SamplingParams& s = submitted.sampling;
  EXPECT_THAT(submitted.prompt, ElementsAre('x'));
  EXPECT_EQ(s.temperature, 0.5f);
  EXPECT_EQ(s.top_k, 3);
  EXPECT_EQ(s.top_p, 0.25f);
  EXPECT_EQ(s.min_p, 0.125f);
  EXPECT_EQ(s.typical_p, 0.75f);
  EXPECT_EQ(s.repetition_penalty, 1.5f);
  EXPECT_EQ(s.presence_penalty, -1.0f);
  EXPECT_EQ(s.frequency_penalty, 2.0f);
  EXPECT_THAT(s.logit_bias, ElementsAre(std::pair<TokenId, float>(65, -7.0f)));
  EXPECT_EQ(s.seed, 11u);
  EXPECT_EQ(s.max_tokens, 9);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_THAT(s.stop_token_ids, ElementsAre(66));
  EXPECT_EQ(s.top_logprobs, -1);
}

TEST_F(GenerateTest, ChatMessagesAndTheirMembersReachTheTemplate) {
  model_->chat_template = *ChatTemplate::Parse(
      "{{ tone }}{% for m in messages %}{{ m.role }}={{ m.content }}/{{ m.name }}/{{ m.more }};"
      "{% endfor %}{{ add_generation_prompt }}");
  StartServer();
  v1::GenerateRequest request;
  request.mutable_chat()->set_variables_json(R"({"tone": "mild "})");
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("hi");
  message->set_name("ann");
  message->set_members_json(R"({"more": 3})");
  request.set_add_special_tokens(false);
  const auto stream = Generate(request);
  std::string rendered;
  for (const TokenId id : engine_->RequestOf(engine_->WaitForSequences(1)[0]).prompt) {
    rendered.push_back(static_cast<char>(id));
  }
  EXPECT_EQ(rendered, "mild user=hi/ann/3;True");
}

TEST_F(GenerateTest, BadFieldsAreNamed) {
  StartServer();
  const auto expect = [&](const std::string& words, const std::function<void(v1::GenerateRequest&)>& change) {
    v1::GenerateRequest request = Prompt("x");
    change(request);
    const grpc::Status status = Refused(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << words;
    EXPECT_THAT(status.error_message(), HasSubstr(words));
  };
  expect("one of text, token_ids and chat", [](auto& r) { r.clear_text(); });
  expect("token 1 of the prompt must lie in [0, 258], got 300", [](auto& r) {
    r.mutable_token_ids()->add_ids(1);
    r.mutable_token_ids()->add_ids(300);
  });
  expect("the prompt is empty", [](auto& r) { r.mutable_token_ids(); });
  expect("chat.variables_json must be a JSON object",
         [](auto& r) { r.mutable_chat()->set_variables_json("[1"); });
  expect("chat.messages[0].members_json must be a JSON object",
         [](auto& r) { r.mutable_chat()->add_messages()->set_members_json("3"); });
  expect("has no chat template", [](auto& r) { r.mutable_chat()->add_messages()->set_role("user"); });
  expect("priority must lie in [0, 3], got 9",
         [](auto& r) { r.set_priority(static_cast<v1::PriorityClass>(9)); });
  expect("timeout must be positive", [](auto& r) { r.mutable_timeout()->set_seconds(-1); });
  expect("tenant", [](auto& r) { r.set_tenant("a b"); });
  expect("request_id", [](auto& r) { r.set_request_id(std::string(200, 'x')); });
  expect("request_id", [](auto& r) { r.set_request_id("\x01"); });
  expect("temperature", [](auto& r) { r.mutable_sampling()->set_temperature(-1); });
  expect("top_p", [](auto& r) { r.mutable_sampling()->set_top_p(2); });
  expect("top_k", [](auto& r) { r.mutable_sampling()->set_top_k(-2); });
  expect("n must lie in [1, 4], got 100000", [](auto& r) { r.mutable_sampling()->set_n(100000); });
  expect("max_tokens must lie in [1, 2147483647], got 9223372036854775807",
         [](auto& r) { r.mutable_sampling()->set_max_tokens(INT64_MAX); });
  expect("context of 100", [](auto& r) { r.mutable_sampling()->set_max_tokens(100); });
  expect("min_tokens", [](auto& r) { r.mutable_sampling()->set_min_tokens(50); });
  expect("top_logprobs", [](auto& r) { r.mutable_sampling()->set_top_logprobs(21); });
  expect("stop[0]", [](auto& r) { r.mutable_sampling()->add_stop(""); });
  expect("stop_token_ids[0]", [](auto& r) { r.mutable_sampling()->add_stop_token_ids(-5); });
  expect("logit_bias", [](auto& r) { r.mutable_sampling()->add_logit_bias()->set_token(1 << 20); });
  EXPECT_EQ(engine_->Live(), 0);
  EXPECT_EQ(service().LiveRequests(), 0);
}

TEST_F(GenerateTest, ALongMessageIsCutToWhatHeadersCarry) {
  model_->chat_template = *ChatTemplate::Parse("{{ raise_exception('no ' + messages[0].content) }}");
  StartServer();
  v1::GenerateRequest request;
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content(std::string(100'000, 'x'));
  const grpc::Status status = Refused(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_LT(status.error_message().size(), 3000u);
}

TEST_F(GenerateTest, AnUnknownModelIsNotFound) {
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  request.set_model("other");
  EXPECT_EQ(Refused(request).error_code(), grpc::StatusCode::NOT_FOUND);
  registry_.Declare("other");
  const auto loading = Generate(request);
  const grpc::Status status = loading->Drain();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("loading"));
  EXPECT_NE(loading->TrailingMetadata("retry-after"), "");
}

TEST_F(GenerateTest, TheRequestIdIsEchoedOrMade) {
  StartServer();
  const auto run = [&](const v1::GenerateRequest& request, const std::string& header) {
    const auto stream = Generate(request, [&](grpc::ClientContext& context) {
      if (!header.empty()) context.AddMetadata("x-request-id", header);
    });
    engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kLength);
    EXPECT_TRUE(stream->Drain().ok());
    EXPECT_EQ(stream->InitialMetadata("x-request-id"), stream->started->request_id());
    return stream->started->request_id();
  };
  EXPECT_EQ(run(Prompt("x"), "from-header"), "from-header");
  v1::GenerateRequest named = Prompt("x");
  named.set_request_id("from-field");
  EXPECT_EQ(run(named, ""), "from-field");
  EXPECT_EQ(run(named, "from-header"), "from-field");
  EXPECT_THAT(run(Prompt("x"), ""), ::testing::StartsWith("req-"));
  named.mutable_sampling()->set_n(0);
  const auto refused = Generate(named);
  EXPECT_FALSE(refused->Drain().ok());
  EXPECT_EQ(refused->InitialMetadata("x-request-id"), "from-field");
}

TEST_F(GenerateTest, CancellingTheCallStopsTheWork) {
  StartServer();
  const auto stream = Generate(Prompt("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, "abc");
  ASSERT_TRUE(stream->Read());
  stream->context().TryCancel();
  EXPECT_EQ(stream->Drain().error_code(), grpc::StatusCode::CANCELLED);
  engine_->WaitUntilIdle();
  EXPECT_EQ(engine_->CancelledWith(id).code(), StatusCode::kCancelled);
  server_->Shutdown(Duration::zero());
  EXPECT_EQ(service().LiveRequests(), 0);
  EXPECT_EQ(server_->Stats().cancelled_calls, 1u);
  EXPECT_EQ(server_->Stats().open_streams, 0);
}

TEST_F(GenerateTest, TheCallsDeadlineReachesTheEngine) {
  StartServer();
  const auto deadline = std::chrono::system_clock::now() + milliseconds(2000);
  const auto stream = Generate(Prompt("x"), [&](auto& context) { context.set_deadline(deadline); });
  const SequenceId id = engine_->WaitForSequences(1)[0];
  ASSERT_TRUE(engine_->RequestOf(id).deadline);
  EXPECT_EQ(stream->Drain().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  engine_->WaitUntilIdle();  // although this engine knows no time
  EXPECT_FALSE(engine_->CancelledWith(id).ok());
}

TEST_F(GenerateTest, TheTimeoutHoldsWhileTheRequestWaitsForTokenising) {
  StartServer();
  const auto gate = BlockWorker();
  v1::GenerateRequest request = Prompt("x");
  request.mutable_timeout()->set_nanos(1'000'000);
  EXPECT_EQ(Refused(request).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  gate->Set();
}

TEST_F(GenerateTest, AFailureAfterSomeTextCarriesItsStatus) {
  StartServer();
  const auto stream = Generate(Prompt("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, "abc");
  // Read before the failure: what a gRPC client has not read yet when an error arrives it drops.
  std::string text;
  while (text != "abc") {
    const auto response = stream->Read();
    ASSERT_TRUE(response);
    for (const v1::TextDelta& delta : response->deltas()) text += delta.text();
  }
  engine_->Finish(id, FinishReason::kError, Status::Internal("logits are not finite"));
  const grpc::Status status = stream->Drain();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message(), "logits are not finite");
  EXPECT_FALSE(stream->completed);
}

TEST_F(GenerateTest, AMessageOverTheLimitIsRefusedWithBothNumbers) {
  server_options_.max_request_bytes = 64 << 10;
  StartServer();
  const grpc::Status status = Refused(Prompt(std::string(100'000, 'x')));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("larger than max"));
  EXPECT_THAT(status.error_message(), HasSubstr("65536"));
  // The connection lives on.
  EXPECT_EQ(Refused(Prompt(std::string(1000, 'x'))).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(GenerateTest, OverloadIsToldWithARetryTime) {
  StartServer();
  std::vector<std::unique_ptr<ClientStream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(Generate(Prompt("x")));
  const std::vector<SequenceId> ids = engine_->WaitForSequences(4);
  const auto refused = Generate(Prompt("x"));
  EXPECT_EQ(refused->Drain().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused->TrailingMetadata("retry-after"), "1");
  for (const SequenceId id : ids) engine_->Finish(id, FinishReason::kLength);
  for (const auto& stream : streams) EXPECT_TRUE(stream->Drain().ok());
}

}  // namespace
}  // namespace skipjack
