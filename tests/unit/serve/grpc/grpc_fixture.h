// A gRPC server on a free port over a service whose step loop the test plays, and a client of it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpc/health/v1/health.grpc.pb.h"
#include "serve/grpc/grpc_server.h"
#include "skipjack/v1/admin.grpc.pb.h"
#include "skipjack/v1/inference.grpc.pb.h"
#include "tests/unit/serve/service_fixture.h"

namespace skipjack::testing {

inline std::shared_ptr<grpc::Channel> Connect(int port, grpc::ChannelArguments arguments = {}) {
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(),
                                   arguments);
}

// One Generate call of a client that reads when it is told to.
class ClientStream {
 public:
  ClientStream(const std::shared_ptr<grpc::Channel>& channel, const v1::GenerateRequest& request,
               const std::function<void(grpc::ClientContext&)>& prepare = nullptr) {
    if (prepare) prepare(context_);
    reader_ = v1::Inference::NewStub(channel)->Generate(&context_, request);
  }

  grpc::ClientContext& context() { return context_; }

  // The next message, or none at the end.
  std::optional<v1::GenerateResponse> Read() {
    v1::GenerateResponse response;
    if (!reader_->Read(&response)) return std::nullopt;
    return response;
  }

  // Reads to the end and keeps everything.
  grpc::Status Drain() {
    while (const auto response = Read()) {
      if (response->has_started() && !started) started = response->started();
      const auto& ids = response->started().prompt_token_ids();
      prompt_token_ids.insert(prompt_token_ids.end(), ids.begin(), ids.end());
      for (const v1::TextDelta& delta : response->deltas()) {
        text[delta.choice()] += delta.text();
        token_count[delta.choice()] += delta.token_count();
        for (const v1::Token& token : delta.tokens()) tokens[delta.choice()].push_back(token);
      }
      for (const v1::ChoiceFinish& finish : response->finished()) finished[finish.choice()] = finish;
      if (response->has_completed()) completed = response->completed();
    }
    return reader_->Finish();
  }

  std::string InitialMetadata(const std::string& key) {
    return Find(context_.GetServerInitialMetadata(), key);
  }
  std::string TrailingMetadata(const std::string& key) {
    return Find(context_.GetServerTrailingMetadata(), key);
  }

  std::optional<v1::GenerateStarted> started;
  std::vector<int> prompt_token_ids;
  std::map<int, std::string> text;
  std::map<int, int> token_count;
  std::map<int, std::vector<v1::Token>> tokens;
  std::map<int, v1::ChoiceFinish> finished;
  std::optional<v1::GenerateCompleted> completed;

 private:
  static std::string Find(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                          const std::string& key) {
    const auto it = metadata.find(key);
    return it == metadata.end() ? "" : std::string(it->second.data(), it->second.size());
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
};

class GrpcTest : public ServiceTest {
 protected:
  GrpcTest() { options_.clock = nullptr; }  // deadlines of calls are the system's

  // The tests' bodies run before this: the server goes before the service.
  void TearDown() override { server_.reset(); }

  void StartServer() {
    auto server = GrpcServer::Start(service(), registry_, server_options_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = *std::move(server);
    channel_ = Connect(server_->port());
  }

  static v1::GenerateRequest Prompt(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    return request;
  }

  std::unique_ptr<ClientStream> Generate(const v1::GenerateRequest& request,
                                         const std::function<void(grpc::ClientContext&)>& prepare = nullptr) {
    return std::make_unique<ClientStream>(channel_, request, prepare);
  }

  v1::StatusResponse AdminStatus() {
    grpc::ClientContext context;
    v1::StatusRequest request;
    request.set_include_requests(true);
    v1::StatusResponse response;
    EXPECT_TRUE(v1::Admin::NewStub(channel_)->Status(&context, request, &response).ok());
    return response;
  }

  grpc::health::v1::HealthCheckResponse::ServingStatus Health(const std::string& name) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    grpc::health::v1::HealthCheckResponse response;
    const grpc::Status status =
        grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }

  GrpcServerOptions server_options_;
  std::unique_ptr<GrpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace skipjack::testing
