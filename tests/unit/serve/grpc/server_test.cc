// Everything but Generate: the other methods, health, reflection, binding and shutdown, over real sockets.
#include <grpcpp/generic/generic_stub.h>

#include <future>
#include <string>
#include <vector>

#include "tests/unit/serve/grpc/grpc_fixture.h"

namespace skipjack {
namespace {

using grpc::health::v1::HealthCheckResponse;
using testing::ByteTokenizer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kInference[] = "skipjack.v1.Inference";

class GrpcServerTest : public testing::GrpcTest {
 protected:
  using Watch = grpc::ClientReader<HealthCheckResponse>;

  std::unique_ptr<Watch> StartWatch(grpc::ClientContext* context, const std::string& name) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    return grpc::health::v1::Health::NewStub(channel_)->Watch(context, request);
  }

  static HealthCheckResponse::ServingStatus Next(Watch& watch) {
    HealthCheckResponse response;
    EXPECT_TRUE(watch.Read(&response));
    return response.status();
  }
};

TEST_F(GrpcServerTest, TokenizesAndBack) {
  StartServer();
  const auto stub = v1::Inference::NewStub(channel_);
  v1::TokenizeRequest request;
  request.set_text("a\xC3\xA9");
  v1::TokenizeResponse tokens;
  {
    grpc::ClientContext context;
    context.AddMetadata("x-request-id", "t-1");
    ASSERT_TRUE(stub->Tokenize(&context, request, &tokens).ok());
    EXPECT_EQ(context.GetServerInitialMetadata().count("x-request-id"), 1u);
  }
  EXPECT_THAT(tokens.ids(), ElementsAre(ByteTokenizer::kBos, 'a', 0xC3, 0xA9));
  EXPECT_THAT(tokens.pieces(), ElementsAre("<bos>", "a", "\xC3", "\xA9"));

  request.set_text("<eos>");
  request.set_add_special_tokens(false);
  request.set_parse_special(true);
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->Tokenize(&context, request, &tokens).ok());
  }
  EXPECT_THAT(tokens.ids(), ElementsAre(ByteTokenizer::kEos));

  v1::DetokenizeRequest back;
  for (const int id : {int{ByteTokenizer::kBos}, 0xC3, 0xA9}) back.add_ids(id);
  back.set_skip_special_tokens(true);
  v1::DetokenizeResponse text;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->Detokenize(&context, back, &text).ok());
  }
  EXPECT_EQ(text.text(), "\xC3\xA9");

  back.add_ids(1ll << 40);
  grpc::ClientContext context;
  const grpc::Status status = stub->Detokenize(&context, back, &text);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("tokens[3]"));
}

TEST_F(GrpcServerTest, TokenizingIsRefusedWhenTooMuchWaits) {
  StartServer();
  const auto gate = BlockWorker();
  while (service().RunOnWorker([] {})) {
  }
  const auto stub = v1::Inference::NewStub(channel_);
  v1::TokenizeRequest request;
  request.set_text("x");
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(stub->Tokenize(&context, request, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // What needs no worker goes on.
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
  gate->Set();
}

TEST_F(GrpcServerTest, ListsAndDescribesModels) {
  registry_.Declare("later");
  StartServer();
  const auto stub = v1::Inference::NewStub(channel_);
  v1::ListModelsResponse list;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->ListModels(&context, {}, &list).ok());
  }
  ASSERT_EQ(list.models_size(), 2);
  EXPECT_EQ(list.models(0).name(), "bytes");
  EXPECT_TRUE(list.models(0).ready());
  EXPECT_EQ(list.models(0).context_length(), testing::kContext);
  EXPECT_EQ(list.models(0).architecture(), "fake");
  EXPECT_FALSE(list.models(1).ready());
  v1::GetModelRequest request;
  request.set_name("bytes");
  v1::Model model;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->GetModel(&context, request, &model).ok());
  }
  EXPECT_EQ(model.vocabulary(), ByteTokenizer::kVocabulary);
  request.set_name("none");
  grpc::ClientContext context;
  EXPECT_EQ(stub->GetModel(&context, request, &model).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, StatusShowsModelsEnginesAndRequests) {
  registry_.Declare("later");
  server_options_.version = "1.2.3";
  StartServer();
  v1::GenerateRequest request = Prompt("hello");
  request.set_model("bytes");
  request.set_request_id("mine");
  request.set_tenant("acme");
  const auto stream = Generate(request);
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, "abc");
  const v1::StatusResponse status = AdminStatus();
  EXPECT_EQ(status.version(), "1.2.3");
  EXPECT_FALSE(status.ready());
  EXPECT_THAT(status.not_ready_reason(), HasSubstr("'later' is loading"));
  EXPECT_FALSE(status.draining());
  EXPECT_EQ(status.live_requests(), 1);
  ASSERT_EQ(status.models_size(), 2);
  EXPECT_EQ(status.models(0).state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(status.models(0).description(), "a fake");
  EXPECT_TRUE(status.models(0).has_engine());
  EXPECT_EQ(status.models(1).state(), v1::MODEL_STATE_LOADING);
  EXPECT_EQ(status.models(1).phase(), "waiting");
  EXPECT_FALSE(status.models(1).has_engine());
  ASSERT_EQ(status.requests_size(), 1);
  EXPECT_EQ(status.requests(0).request_id(), "mine");
  EXPECT_EQ(status.requests(0).tenant(), "acme");
  EXPECT_EQ(status.requests(0).prompt_tokens(), 6);
  EXPECT_EQ(status.requests(0).generated_tokens(), 3);
}

TEST_F(GrpcServerTest, OperatorsAskWhy) {
  StartServer();
  v1::GenerateRequest generate = Prompt("hi");
  generate.set_request_id("who-runs");
  const auto running = Generate(generate);
  engine_->WaitForSequences(1);
  generate.set_request_id("who-waits");
  generate.set_priority(v1::PRIORITY_CLASS_BATCH);
  const auto waiting = Generate(generate);
  const std::vector<SequenceId> ids = engine_->WaitForSequences(2);
  for (const auto& stream : {running.get(), waiting.get()}) ASSERT_TRUE(stream->Read()->has_started());
  engine_->SetExplanation(
      ids[1],
      {.phase = SequenceExplanation::Phase::kPreempted,
       .level = 3,
       .ahead = 4,
       .ahead_is_more = true,
       .waits_for = WaitNote{.reason = WaitReason::kBlocks, .blocks_wanted = 12, .blocks_available = 3},
       .seats = 8,
       .running = 2,
       .preemptions = 2,
       .preempted = PreemptionNote{.cause = PreemptionCause::kGrowth, .by = ids[0], .tokens_lost = 20},
       .since_preempted = std::chrono::milliseconds(1500)});
  const auto admin = v1::Admin::NewStub(channel_);
  v1::ExplainRequest request;
  v1::ExplainResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(admin->Explain(&context, request, &response).ok());
  }
  ASSERT_EQ(response.requests_size(), 2);
  EXPECT_EQ(response.live_requests(), 2);
  EXPECT_EQ(response.requests(0).request().request_id(), "who-runs");
  const v1::RequestExplanation& explanation = response.requests(1);
  EXPECT_TRUE(explanation.submitted());
  ASSERT_EQ(explanation.choices_size(), 1);
  const v1::ChoiceExplanation& choice = explanation.choices(0);
  EXPECT_EQ(choice.phase(), v1::SEQUENCE_PHASE_PREEMPTED);
  EXPECT_EQ(choice.place().priority(), v1::PRIORITY_CLASS_BATCH);
  EXPECT_EQ(choice.place().level(), 3);
  EXPECT_EQ(choice.ahead(), 4);
  EXPECT_TRUE(choice.ahead_is_more());
  EXPECT_EQ(choice.wait().reason(), v1::WAIT_REASON_KV_BLOCKS);
  EXPECT_EQ(choice.wait().blocks_wanted(), 12);
  EXPECT_EQ(choice.wait().blocks_available(), 3);
  EXPECT_EQ(choice.wait().seats(), 8);
  EXPECT_EQ(choice.preempted().cause(), v1::PREEMPTION_CAUSE_GROWTH);
  EXPECT_EQ(choice.preempted().by_request_id(), "who-runs");
  EXPECT_EQ(choice.preempted().ago().nanos(), 500'000'000);
  EXPECT_EQ(choice.sentence(),
            "waits for KV blocks: wants 12, 3 are available; at least 4 sequences that wait go before it; "
            "preempted 2 times, last 1.5 s ago because request who-runs needed its KV blocks to go on, 20 "
            "computed tokens lost");

  const auto code_of = [&](const std::string& id, std::int32_t limit) {
    grpc::ClientContext context;
    request.set_request_id(id);
    request.set_limit(limit);
    const grpc::Status status = admin->Explain(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) {
      EXPECT_THAT(status.error_message(), HasSubstr("limit must lie in [0, 1000]"));
    }
    return status.error_code();
  };
  EXPECT_EQ(code_of("", 1), grpc::StatusCode::OK);
  EXPECT_EQ(response.requests_size(), 1);
  EXPECT_EQ(code_of("nobody", 0), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(code_of("", -1), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code_of("", 1001), grpc::StatusCode::INVALID_ARGUMENT);
  for (const SequenceId id : ids) engine_->Finish(id, FinishReason::kStop);
  EXPECT_TRUE(running->Drain().ok());
  EXPECT_TRUE(waiting->Drain().ok());
}

TEST_F(GrpcServerTest, OperatorsCancelByRequestId) {
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  request.set_request_id("mine");
  const auto stream = Generate(request);
  engine_->WaitForSequences(1);
  const auto admin = v1::Admin::NewStub(channel_);
  v1::CancelRequest cancel;
  v1::CancelResponse response;
  cancel.set_request_id("mine");
  {
    grpc::ClientContext context;
    EXPECT_TRUE(admin->Cancel(&context, cancel, &response).ok());
  }
  const grpc::Status status = stream->Drain();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_THAT(status.error_message(), HasSubstr("operator"));
  EXPECT_EQ(engine_->Live(), 0);
  grpc::ClientContext context;
  EXPECT_EQ(admin->Cancel(&context, cancel, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, HealthFollowsReadiness) {
  registry_.Declare("later");
  StartServer();
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health(kInference), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Health("skipjack.v1.Admin"), HealthCheckResponse::SERVING);
  registry_.Add(testing::MakeModel("later", std::make_shared<testing::ManualEngine>()));
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(kInference), HealthCheckResponse::SERVING);
  service().BeginDrain();
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);

  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("nobody.Knows");
  HealthCheckResponse response;
  EXPECT_EQ(grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, WatchersHearOfEveryTransition) {
  registry_.Declare("later");
  server_options_.health_interval = std::chrono::milliseconds(1);
  StartServer();
  grpc::ClientContext overall_context, unknown_context;
  const auto overall = StartWatch(&overall_context, "");
  const auto unknown = StartWatch(&unknown_context, "nobody.Knows");
  EXPECT_EQ(Next(*overall), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Next(*unknown), HealthCheckResponse::SERVICE_UNKNOWN);
  registry_.Add(testing::MakeModel("later", std::make_shared<testing::ManualEngine>()));
  EXPECT_EQ(Next(*overall), HealthCheckResponse::SERVING);
  service().BeginDrain();
  EXPECT_EQ(Next(*overall), HealthCheckResponse::NOT_SERVING);
  server_->Shutdown(Duration::zero());
  HealthCheckResponse response;
  EXPECT_FALSE(overall->Read(&response));
  EXPECT_EQ(overall->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(unknown->Read(&response));
  EXPECT_FALSE(unknown->Finish().ok());
}

TEST_F(GrpcServerTest, AWatcherMayLeave) {
  StartServer();
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    const auto watch = StartWatch(&context, "");
    EXPECT_EQ(Next(*watch), HealthCheckResponse::SERVING);
    context.TryCancel();
    HealthCheckResponse response;
    while (watch->Read(&response)) {
    }
    EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
}

TEST_F(GrpcServerTest, DrainingLetsStreamsFinishAndRefusesOthers) {
  StartServer();
  const auto running = Generate(Prompt("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  v1::DrainResponse drained;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(v1::Admin::NewStub(channel_)->Drain(&context, {}, &drained).ok());
  }
  EXPECT_EQ(drained.live_requests(), 1);
  EXPECT_TRUE(AdminStatus().draining());
  EXPECT_EQ(Health(""), HealthCheckResponse::NOT_SERVING);
  const auto refused = Generate(Prompt("y"));
  EXPECT_EQ(refused->Drain().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused->TrailingMetadata("retry-after"), "");

  auto shutdown = std::async(std::launch::async, [&] { server_->Shutdown(std::chrono::minutes(10)); });
  engine_->Generate(id, "to the end");
  engine_->Finish(id, FinishReason::kLength);
  EXPECT_TRUE(running->Drain().ok());
  EXPECT_EQ(running->text[0], "to the end");
  shutdown.get();
}

TEST_F(GrpcServerTest, AfterTheGraceStreamsEndWithAStatus) {
  StartServer();
  const auto running = Generate(Prompt("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  service().BeginDrain();
  auto status = std::async(std::launch::async, [&] { return running->Drain(); });
  server_->Shutdown(Duration::zero());
  EXPECT_EQ(status.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(engine_->CancelledWith(id).code(), StatusCode::kUnavailable);
  EXPECT_EQ(engine_->Live(), 0);
  server_->Shutdown(Duration::zero());  // once more does nothing
}

TEST_F(GrpcServerTest, ATakenPortIsAnErrorThatSaysSo) {
  StartServer();
  testing::ClientStream stream(channel_, Prompt("x"));
  engine_->WaitForSequences(1);
  GrpcServerOptions options;
  options.port = static_cast<std::uint16_t>(server_->port());
  const Status status = GrpcServer::Start(service(), registry_, options).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:" + std::to_string(server_->port())));
  EXPECT_THAT(status.message(), HasSubstr("in use"));
}

TEST_F(GrpcServerTest, AnAddressThatIsNotOursIsAnErrorThatSaysSo) {
  GrpcServerOptions options;
  options.host = "192.0.2.1";  // reserved for documentation
  EXPECT_THAT(GrpcServer::Start(service(), registry_, options).status().message(),
              HasSubstr("192.0.2.1:0: "));
}

TEST_F(GrpcServerTest, AServerThatNeverServedGoesQuietly) {
  StartServer();
  server_.reset();
  StartServer();
  EXPECT_EQ(Health(""), HealthCheckResponse::SERVING);
}

TEST_F(GrpcServerTest, ReflectionListsTheServices) {
  StartServer();
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  const auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(wait());
  // ServerReflectionRequest{list_services: "*"}: field 7, one byte.
  const grpc::Slice slice(std::string("\x3a\x01*"));
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  ASSERT_TRUE(wait());
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  ASSERT_TRUE(wait());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(answer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& part : slices)
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  EXPECT_THAT(bytes, HasSubstr(kInference));
  EXPECT_THAT(bytes, HasSubstr("skipjack.v1.Admin"));
  EXPECT_THAT(bytes, HasSubstr("grpc.health.v1.Health"));
  call->WritesDone(nullptr);
  ASSERT_TRUE(wait());
  grpc::Status status;
  call->Finish(&status, nullptr);
  ASSERT_TRUE(wait());
  EXPECT_TRUE(status.ok());
}

}  // namespace
}  // namespace skipjack
