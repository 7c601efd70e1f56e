#include <fmt/core.h>
#include <grpcpp/grpcpp.h>

#include "base/status.h"
#include "cli/generate_command.h"
#include "skipjack/v1/inference.grpc.pb.h"

namespace skipjack::cli {
namespace {

v1::GenerateRequest MakeRequest(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_model(options.model);
  if (options.chat) {
    if (!options.system.empty()) {
      v1::ChatMessage* message = request.mutable_chat()->add_messages();
      message->set_role("system");
      message->set_content(options.system);
    }
    v1::ChatMessage* message = request.mutable_chat()->add_messages();
    message->set_role("user");
    message->set_content(options.prompt);
  } else {
    request.set_text(options.prompt);
  }
  v1::SamplingParams* sampling = request.mutable_sampling();
  if (options.max_tokens) sampling->set_max_tokens(*options.max_tokens);
  if (options.temperature) sampling->set_temperature(*options.temperature);
  if (options.top_p) sampling->set_top_p(*options.top_p);
  if (options.top_k) sampling->set_top_k(*options.top_k);
  if (options.seed) sampling->set_seed(*options.seed);
  for (const std::string& stop : options.stop) sampling->add_stop(stop);
  return request;
}

}  // namespace

int GenerateRemotely(const GenerateOptions& options) {
  const auto channel = grpc::CreateChannel(options.connect, grpc::InsecureChannelCredentials());
  const auto stub = v1::Inference::NewStub(channel);
  grpc::ClientContext context;
  const auto reader = stub->Generate(&context, MakeRequest(options));
  GenerateReport report;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    for (const v1::TextDelta& delta : response.deltas()) {
      std::fwrite(delta.text().data(), 1, delta.text().size(), stdout);
    }
    std::fflush(stdout);
    if (!response.has_completed()) continue;
    const v1::GenerateCompleted& completed = response.completed();
    report = {completed.usage().prompt_tokens(),     completed.usage().completion_tokens(),
              completed.usage().cached_tokens(),     completed.timings().queue_seconds(),
              completed.timings().prefill_seconds(), completed.timings().decode_seconds()};
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) {
    fmt::print(stderr, "{}: {}\n", StatusCodeName(static_cast<StatusCode>(status.error_code())),
               status.error_message());
    return 1;
  }
  PrintReport(report);
  return 0;
}

}  // namespace skipjack::cli
