#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "cli/command.h"
#include "skipjack/v1/admin.grpc.pb.h"

namespace skipjack::cli {
namespace {

struct Options {
  std::string address = "127.0.0.1:50051";
  std::string request_id;
  std::int32_t limit = 100;
  double timeout_seconds = 5.0;
};

void Print(const v1::RequestExplanation& explanation) {
  const v1::LiveRequest& request = explanation.request();
  const double age = static_cast<double>(request.age().seconds()) + request.age().nanos() * 1e-9;
  fmt::print("{} on {}, for {:.1f} s\n", request.request_id(), request.model(), age);
  if (!explanation.submitted()) fmt::print("  waits for tokenising\n");
  for (const v1::ChoiceExplanation& choice : explanation.choices()) {
    fmt::print("  choice {}: {}\n", choice.choice(), choice.sentence());
  }
}

int Explain(const Options& options) {
  const auto stub =
      v1::Admin::NewStub(grpc::CreateChannel(options.address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1e3)));
  v1::ExplainRequest request;
  request.set_request_id(options.request_id);
  request.set_limit(options.limit);
  v1::ExplainResponse response;
  const grpc::Status status = stub->Explain(&context, request, &response);
  if (!status.ok()) {
    fmt::print(stderr, "{}\n", status.error_message());
    return 1;
  }
  for (const v1::RequestExplanation& explanation : response.requests()) Print(explanation);
  const std::int32_t more = response.live_requests() - response.requests_size();
  if (options.request_id.empty() && more > 0) fmt::print("and {} more\n", more);
  return 0;
}

}  // namespace

void AddExplainCommand(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("explain", "Why requests of a running daemon wait, run or were preempted");
  auto options = std::make_shared<Options>();
  command->add_option("request", options->request_id, "Request id; without one, the oldest live requests");
  command->add_option("--connect", options->address, "HOST:PORT of its gRPC")->capture_default_str();
  command->add_option("--limit", options->limit, "Requests to list")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--timeout", options->timeout_seconds, "Seconds")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->callback([options, run] { *run = [options] { return Explain(*options); }; });
}

}  // namespace skipjack::cli
