// `skipjack fit-cost-model`: what a running daemon has learnt of step times, as a file for `skipjack
// simulate`.
#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/simulate/cost_fit.h"
#include "skipjack/v1/admin.grpc.pb.h"

namespace skipjack::cli {
namespace {

struct FitOptions {
  std::string address = "127.0.0.1:50051";
  std::string model;
  std::string name;
  std::string out;
  double host_bytes_per_second = 5e9;
  double timeout = 10;
};

Result<v1::StatusResponse> AskStatus(const FitOptions& options) {
  const auto channel = grpc::CreateChannel(options.address, grpc::InsecureChannelCredentials());
  const auto stub = v1::Admin::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1e3)));
  v1::StatusResponse response;
  const grpc::Status status = stub->Status(&context, v1::StatusRequest(), &response);
  if (status.ok()) return response;
  return Status(static_cast<StatusCode>(status.error_code()),
                options.address + ": " + status.error_message());
}

Result<v1::ModelStatus> FindModel(const v1::StatusResponse& response, const std::string& name) {
  std::string names;
  for (const v1::ModelStatus& model : response.models()) {
    if (model.name() == name || (name.empty() && response.models_size() == 1)) return model;
    names += (names.empty() ? "" : ", ") + model.name();
  }
  if (name.empty()) return Status::InvalidArgument("--model: name one of " + names);
  return Status::NotFound("model '" + name + "' is not served there; there are: " + names);
}

Result<std::string> Fit(const FitOptions& options) {
  const Result<v1::StatusResponse> response = AskStatus(options);
  if (!response.ok()) return response.status();
  const Result<v1::ModelStatus> model = FindModel(*response, options.model);
  if (!model.ok()) return model.status();
  if (model->block_tokens() <= 0) return Status::Unavailable("model '" + model->name() + "' is not loaded");
  const v1::EngineStats& engine = model->engine();
  const v1::LearntStepTimes& learnt = engine.learnt();
  return MakeCostFile(
      {.name = options.name.empty() ? model->name() : options.name,
       .source = fmt::format("model {} ({}) of the daemon {} at {}, after {} steps", model->name(),
                             model->description(), response->version(), options.address, engine.steps()),
       .latency = {.step = learnt.step(),
                   .decoder = learnt.decoder(),
                   .context = learnt.context(),
                   .prompt_token = learnt.prompt_token(),
                   .prompt_pair = learnt.prompt_pair()},
       .kv_tokens = std::int64_t{engine.blocks_total()} * model->block_tokens(),
       .context_length = model->context_length(),
       .kv_bytes_per_token = static_cast<double>(model->block_bytes()) / model->block_tokens(),
       .host_bytes_per_second = options.host_bytes_per_second});
}

int FitCostModel(const FitOptions& options) {
  const Result<std::string> json = Fit(options);
  if (!json.ok()) {
    fmt::print(stderr, "{}\n", json.status().ToString());
    return 1;
  }
  if (options.out.empty()) {
    fmt::print("{}", *json);
    return 0;
  }
  std::ofstream file(options.out, std::ios::trunc);
  file << *json;
  file.close();
  if (file) return 0;
  fmt::print(stderr, "cannot write {}\n", options.out);
  return 1;
}

}  // namespace

void AddFitCostModelCommand(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand(
      "fit-cost-model",
      "Write what a running daemon has learnt of step times as a cost model for `simulate`");
  auto options = std::make_shared<FitOptions>();
  command->add_option("--connect", options->address, "HOST:PORT of its gRPC")->capture_default_str();
  command->add_option("--model", options->model, "Which model, where it serves several");
  command->add_option("--name", options->name, "Of the cost model (the model's)");
  command->add_option("--out", options->out, "File to write (standard output)");
  command
      ->add_option("--host-bytes-per-second", options->host_bytes_per_second,
                   "What copies to host memory reach; the daemon does not measure it")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--timeout", options->timeout, "Seconds")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->callback([options, run] { *run = [options] { return FitCostModel(*options); }; });
}

}  // namespace skipjack::cli
