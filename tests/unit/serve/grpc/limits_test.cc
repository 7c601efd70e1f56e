// What bounds a gRPC front end: JSON in chats, messages that wait, long answers, calls on a connection; and
// the counters that show what was refused.
#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/serve/grpc/grpc_fixture.h"

namespace skipjack {
namespace {

using ::testing::AllOf;
using testing::ClientStream;
using testing::Event;
using ::testing::HasSubstr;

class GrpcLimitsTest : public testing::GrpcTest {
 protected:
  grpc::Status Refused(const v1::GenerateRequest& request) {
    const auto stream = Generate(request);
    const grpc::Status status = stream->Drain();
    EXPECT_FALSE(stream->started);
    return status;
  }

  static v1::GenerateRequest Chat(const std::string& content = "x") {
    v1::GenerateRequest request;
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(content);
    return request;
  }

  void UseTemplate(const std::string& source) { model_->chat_template = *ChatTemplate::Parse(source); }

  std::string RenderedPrompt() {
    std::string text;
    for (const TokenId id : engine_->RequestOf(engine_->WaitForSequences(1)[0]).prompt) {
      text.push_back(static_cast<char>(id));
    }
    return text;
  }

  std::map<std::pair<std::string, std::string>, std::uint64_t> Counts() {
    std::map<std::pair<std::string, std::string>, std::uint64_t> counts;
    for (const GrpcServerStats::Requests& entry : server_->Stats().requests) {
      counts[{std::string(entry.method), std::string(entry.code)}] = entry.count;
    }
    return counts;
  }
};

TEST_F(GrpcLimitsTest, JsonThatWouldCostTheSquareOfItsSizeIsRefused) {
  UseTemplate("{{ messages[0].content }}");
  server_options_.max_request_bytes = 16 << 20;
  StartServer();
  std::string wide = "{\"a\":0";
  for (int i = 0; i < 800'000; ++i) wide += ",\"" + std::to_string(i) + "\":0";
  // Nothing behind the limit is read, or the syntax error would be what is told.
  wide += "syntax error";
  v1::GenerateRequest variables = Chat();
  variables.mutable_chat()->set_variables_json(wide);
  v1::GenerateRequest members = Chat();
  members.mutable_chat()->mutable_messages(0)->set_members_json(wide);
  const grpc::Status refused_variables = Refused(variables);
  EXPECT_EQ(refused_variables.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused_variables.error_message(),
              AllOf(HasSubstr("chat.variables_json"), HasSubstr("more than 2048 members")));
  const grpc::Status refused_members = Refused(members);
  EXPECT_EQ(refused_members.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(refused_members.error_message(),
              AllOf(HasSubstr("chat.messages[0].members_json"), HasSubstr("more than 2048 members")));

  v1::TokenizeRequest tokenize;
  *tokenize.mutable_chat() = variables.chat();
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  const grpc::Status status = v1::Inference::NewStub(channel_)->Tokenize(&context, tokenize, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("more than 2048 members"));
}

TEST_F(GrpcLimitsTest, JsonOfAllMessagesIsBoundedTogether) {
  UseTemplate("{{ messages[0].content }}");
  StartServer();
  v1::GenerateRequest request = Chat();
  request.mutable_chat()->clear_messages();
  std::string members = "{\"m\":0";
  for (int i = 1; i < 1000; ++i) members += ",\"" + std::to_string(i) + "\":0";
  for (int i = 0; i < 70; ++i) {
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_members_json(members + "}");
  }
  EXPECT_THAT(Refused(request).error_message(),
              AllOf(HasSubstr("chat.messages[65].members_json"), HasSubstr("more than 65536 members")));
  request.mutable_chat()->clear_messages();
  for (int i = 0; i < 65'537; ++i) request.mutable_chat()->add_messages();
  EXPECT_THAT(Refused(request).error_message(), HasSubstr("at most 65536 entries, got 65537"));
  request = Chat();
  request.mutable_chat()->set_variables_json(R"({"x": )" + std::string(100'000, '[') + "}");
  EXPECT_THAT(Refused(request).error_message(), HasSubstr("nested deeper than 64 levels"));
  request.mutable_chat()->set_variables_json(R"({"a": 1, "a": 2})");
  EXPECT_THAT(Refused(request).error_message(), HasSubstr("\"a\" is given twice"));
  for (const std::string name : {"messages", "add_generation_prompt", "bos_token", "eos_token"}) {
    request.mutable_chat()->set_variables_json("{\"" + name + "\": 1}");
    EXPECT_THAT(Refused(request).error_message(), HasSubstr(name + " cannot be set this way"));
  }
}

// With the only worker blocked: a small chat is read at once, a large one waits for the worker, and gRPC's
// own threads go on meanwhile.
TEST_F(GrpcLimitsTest, LargeChatsAreReadOnAWorker) {
  UseTemplate("{{ messages[0].content }}");
  StartServer();
  const auto gate = BlockWorker();
  v1::GenerateRequest large = Chat();
  large.mutable_chat()->set_variables_json("[" + std::string(20'000, ' '));  // wrong, and that takes reading
  auto waiting = std::async(std::launch::async, [&] { return Refused(large); });
  v1::GenerateRequest small = Chat();
  small.mutable_chat()->set_variables_json("[");
  EXPECT_EQ(Refused(small).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  while (server_->Stats().open_streams == 0) std::this_thread::yield();
  EXPECT_EQ(Health(""), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(Counts()[std::pair("Generate", "INVALID_ARGUMENT")], 1u);
  gate->Set();
  EXPECT_EQ(waiting.get().error_code(), grpc::StatusCode::INVALID_ARGUMENT);

  large.mutable_chat()->set_variables_json("{" + std::string(20'000, ' ') + "}");
  const auto served = Generate(large);
  EXPECT_EQ(RenderedPrompt(), "x");
  engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kLength);
  EXPECT_TRUE(served->Drain().ok());
}

TEST_F(GrpcLimitsTest, ACallThatIsCancelledWhileItWaitsToBeReadEnds) {
  UseTemplate("{{ messages[0].content }}");
  StartServer();
  const auto gate = BlockWorker();
  v1::GenerateRequest large = Chat();
  large.mutable_chat()->set_variables_json("{" + std::string(20'000, ' ') + "}");
  const auto stream = Generate(large);
  while (server_->Stats().open_streams == 0) std::this_thread::yield();
  stream->context().TryCancel();
  EXPECT_EQ(stream->Drain().error_code(), grpc::StatusCode::CANCELLED);
  while (server_->Stats().cancelled_calls == 0) std::this_thread::yield();
  gate->Set();
  server_->Shutdown(std::chrono::minutes(10));
  EXPECT_EQ(server_->Stats().open_streams, 0);
  EXPECT_EQ(engine_->Live(), 0);
  EXPECT_EQ(service().LiveRequests(), 0);
}

TEST_F(GrpcLimitsTest, MessagesThatWaitForAWorkerAreBoundedTogether) {
  UseTemplate("{{ messages[0].content }}");
  server_options_.max_pending_bytes = 100 << 10;
  StartServer();
  const auto gate = BlockWorker();
  v1::GenerateRequest large = Chat();
  large.mutable_chat()->set_variables_json("{" + std::string(60 << 10, ' ') + "}");
  const std::array<std::unique_ptr<ClientStream>, 2> streams = {Generate(large), Generate(large)};
  Event one_ended;
  std::array<std::future<grpc::Status>, 2> ends;
  for (std::size_t i = 0; i < 2; ++i) {
    ends[i] = std::async(std::launch::async, [&, i] {
      const grpc::Status status = streams[i]->Drain();
      one_ended.Set();
      return status;
    });
  }
  one_ended.Wait();  // the worker stands: only a refusal can have ended
  EXPECT_EQ(Counts()[std::pair("Generate", "RESOURCE_EXHAUSTED")], 1u);
  // Tokenize waits for the same worker.
  v1::TokenizeRequest tokenize;
  tokenize.set_text(std::string(60 << 10, 'x'));
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(v1::Inference::NewStub(channel_)->Tokenize(&context, tokenize, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(context.GetServerTrailingMetadata().count("retry-after"), 1u);
  gate->Set();
  engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kLength);
  const std::array<grpc::StatusCode, 2> codes = {ends[0].get().error_code(), ends[1].get().error_code()};
  const std::size_t refused = codes[0] == grpc::StatusCode::OK ? 1 : 0;
  EXPECT_EQ(codes[1 - refused], grpc::StatusCode::OK);
  EXPECT_EQ(codes[refused], grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(streams[refused]->TrailingMetadata("retry-after"), "1");
  // What was read is given back.
  const auto again = Generate(large);
  engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kLength);
  EXPECT_TRUE(again->Drain().ok());
}

TEST_F(GrpcLimitsTest, CallsBeyondTheConnectionsLimitWaitAtTheClient) {
  server_options_.max_calls_per_connection = 2;
  options_.max_live_requests = 64;
  StartServer();
  // Each on a thread of its own: a client waits for its place before it goes on.
  constexpr std::size_t kCalls = 6;
  std::vector<std::future<grpc::Status>> calls;
  for (std::size_t i = 0; i < kCalls; ++i) {
    calls.push_back(std::async(std::launch::async, [this] { return Generate(Prompt("x"))->Drain(); }));
  }
  std::size_t served = 0;
  while (served < kCalls) {
    const std::vector<SequenceId> ids = engine_->WaitForSequences(std::min<std::size_t>(2, kCalls - served));
    EXPECT_LE(engine_->Live(), 2);
    for (const SequenceId id : ids) engine_->Finish(id, FinishReason::kLength);
    served += ids.size();
  }
  for (std::future<grpc::Status>& call : calls) EXPECT_TRUE(call.get().ok());
}

// A client with gRPC's default limit of 4 MiB for a message.
TEST_F(GrpcLimitsTest, IdsOfALongPromptReachAnyClient) {
  constexpr int kTokens = 3'000'000;  // two bytes each on the wire
  model_->context_length = kTokens + 10;
  StartServer();
  v1::GenerateRequest request;
  for (int i = 0; i < kTokens; ++i) request.mutable_token_ids()->add_ids(128 + i % 100);
  request.set_return_prompt_token_ids(true);
  const auto stream = Generate(request);
  engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kLength);
  const grpc::Status status = stream->Drain();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream->started->prompt_tokens(), kTokens);
  ASSERT_EQ(stream->prompt_token_ids.size(), static_cast<std::size_t>(kTokens));
  for (int i = 0; i < kTokens; ++i) {
    ASSERT_EQ(stream->prompt_token_ids[static_cast<std::size_t>(i)], 128 + i % 100);
  }
}

TEST_F(GrpcLimitsTest, OutputThatWaitedLongReachesAnyClient) {
  server_options_.max_stream_bytes = 64 << 20;
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  request.mutable_sampling()->set_top_logprobs(0);
  const auto stream = Generate(request);
  const SequenceId id = engine_->WaitForSequences(1)[0];
  constexpr int kTokens = 400'000;  // over 5 MiB
  for (int i = 0; i < kTokens; ++i) engine_->Generate(id, static_cast<TokenId>('a' + i % 26));
  engine_->Finish(id, FinishReason::kLength);
  const grpc::Status status = stream->Drain();
  EXPECT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(stream->tokens[0].size(), static_cast<std::size_t>(kTokens));
  for (std::size_t i = 0; i < stream->tokens[0].size(); ++i) {
    ASSERT_EQ(stream->tokens[0][i].id(), 'a' + static_cast<int>(i % 26));
  }
  EXPECT_EQ(stream->text[0].size(), static_cast<std::size_t>(kTokens));
  EXPECT_EQ(stream->token_count[0], kTokens);
}

TEST_F(GrpcLimitsTest, EveryCallIsCountedByMethodAndCode) {
  StartServer();
  const auto inference = v1::Inference::NewStub(channel_);
  const auto admin = v1::Admin::NewStub(channel_);
  const auto run = [](const auto& call) {
    grpc::ClientContext context;
    return call(&context).error_code();
  };
  v1::TokenizeRequest tokenize;
  v1::TokenizeResponse tokens;
  EXPECT_EQ(run([&](auto* c) { return inference->Tokenize(c, tokenize, &tokens); }),
            grpc::StatusCode::INVALID_ARGUMENT);
  tokenize.set_text("x");
  EXPECT_EQ(run([&](auto* c) { return inference->Tokenize(c, tokenize, &tokens); }), grpc::StatusCode::OK);
  v1::DetokenizeRequest ids;
  v1::DetokenizeResponse text;
  EXPECT_EQ(run([&](auto* c) { return inference->Detokenize(c, ids, &text); }), grpc::StatusCode::OK);
  v1::ListModelsResponse models;
  EXPECT_EQ(run([&](auto* c) { return inference->ListModels(c, {}, &models); }), grpc::StatusCode::OK);
  v1::GetModelRequest get;
  get.set_name("none");
  v1::Model model;
  EXPECT_EQ(run([&](auto* c) { return inference->GetModel(c, get, &model); }), grpc::StatusCode::NOT_FOUND);
  v1::CancelRequest cancel;
  v1::CancelResponse cancelled;
  EXPECT_EQ(run([&](auto* c) { return admin->Cancel(c, cancel, &cancelled); }), grpc::StatusCode::NOT_FOUND);
  AdminStatus();
  AdminStatus();
  // Four are live, the fifth is one too many; one of the four is cancelled by its client.
  std::vector<std::unique_ptr<ClientStream>> streams;
  for (int i = 0; i < 4; ++i) streams.push_back(Generate(Prompt("x")));
  const std::vector<SequenceId> live = engine_->WaitForSequences(4);
  EXPECT_EQ(Refused(Prompt("x")).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  streams[0]->context().TryCancel();
  EXPECT_EQ(streams[0]->Drain().error_code(), grpc::StatusCode::CANCELLED);
  while (server_->Stats().cancelled_calls == 0) std::this_thread::yield();
  for (const SequenceId id : live) engine_->Finish(id, FinishReason::kLength);
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(streams[static_cast<std::size_t>(i)]->Drain().ok());
  v1::DrainResponse drained;
  EXPECT_EQ(run([&](auto* c) { return admin->Drain(c, {}, &drained); }), grpc::StatusCode::OK);
  EXPECT_EQ(Refused(Prompt("x")).error_code(), grpc::StatusCode::UNAVAILABLE);
  server_->Shutdown(std::chrono::minutes(10));
  const std::map<std::pair<std::string, std::string>, std::uint64_t> expected = {
      {{"Tokenize", "INVALID_ARGUMENT"}, 1},
      {{"Tokenize", "OK"}, 1},
      {{"Detokenize", "OK"}, 1},
      {{"ListModels", "OK"}, 1},
      {{"GetModel", "NOT_FOUND"}, 1},
      {{"Cancel", "NOT_FOUND"}, 1},
      {{"Status", "OK"}, 2},
      {{"Drain", "OK"}, 1},
      {{"Generate", "OK"}, 3},
      {{"Generate", "RESOURCE_EXHAUSTED"}, 1},
      {{"Generate", "CANCELLED"}, 1},
      {{"Generate", "UNAVAILABLE"}, 1}};
  EXPECT_EQ(Counts(), expected);
  EXPECT_EQ(server_->Stats().calls, 15u);
}

}  // namespace
}  // namespace skipjack
