#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>

#include "cli/command.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace skipjack::cli {
namespace {

int Health(const std::string& address, double timeout_seconds) {
  namespace health = ::grpc::health::v1;
  const auto stub = health::Health::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<std::int64_t>(timeout_seconds * 1e3)));
  health::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, health::HealthCheckRequest(), &response);
  if (!status.ok()) {
    fmt::print("unreachable: {}\n", status.error_message());
    return 1;
  }
  const bool serving = response.status() == health::HealthCheckResponse::SERVING;
  fmt::print("{}\n", serving ? "serving" : "not serving");
  return serving ? 0 : 1;
}

}  // namespace

void AddHealthCommand(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("health", "Exit with 0 if a daemon is ready to serve, else with 1");
  auto address = std::make_shared<std::string>("127.0.0.1:50051");
  auto timeout = std::make_shared<double>(2.0);
  command->add_option("--connect", *address, "HOST:PORT of its gRPC")->capture_default_str();
  command->add_option("--timeout", *timeout, "Seconds")->capture_default_str()->check(CLI::PositiveNumber);
  command->callback([address, timeout, run] { *run = [address, timeout] { return Health(*address, *timeout); }; });
}

}  // namespace skipjack::cli
