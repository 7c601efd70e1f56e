#include "serve/grpc/admin_rpc.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "serve/grpc/explanation_conversion.h"
#include "serve/grpc/request_conversion.h"
#include "serve/grpc/response_conversion.h"
#include "serve/grpc/rpc_support.h"

namespace skipjack {
namespace {

constexpr std::size_t kMostRequestsListed = 1000;
constexpr std::size_t kRequestsExplained = 100;  // where no limit is asked for

void AddModels(const ModelRegistry& registry, v1::StatusResponse* response) {
  const std::vector<std::shared_ptr<ServedModel>> loaded = registry.Ready();
  for (const ModelStatus& status : registry.Statuses()) {
    v1::ModelStatus* message = response->add_models();
    *message = ToProto(status);
    const auto model =
        std::find_if(loaded.begin(), loaded.end(), [&](const auto& m) { return m->name == status.name; });
    if (model == loaded.end()) continue;
    message->set_description((*model)->description);
    *message->mutable_engine() = ToProto((*model)->engine->Stats());
    message->set_context_length((*model)->context_length);
    message->set_block_tokens((*model)->block_tokens);
    message->set_block_bytes((*model)->block_bytes);
  }
}

}  // namespace

AdminRpc::AdminRpc(InferenceService& service, ModelRegistry& registry, CallCounts& counts,
                   std::string version, std::function<void()> drained)
    : service_(service),
      registry_(registry),
      counts_(counts),
      version_(std::move(version)),
      drained_(std::move(drained)),
      start_(std::chrono::steady_clock::now()) {}

grpc::ServerUnaryReactor* AdminRpc::Status(grpc::CallbackServerContext* context,
                                           const v1::StatusRequest* request, v1::StatusResponse* response) {
  counts_.CountBegin();
  const skipjack::Status ready = service_.Ready();
  response->set_version(version_);
  *response->mutable_uptime() = ToProto(std::chrono::steady_clock::now() - start_);
  response->set_ready(ready.ok());
  response->set_not_ready_reason(ready.message());
  response->set_draining(service_.draining());
  response->set_live_requests(service_.LiveRequests());
  AddModels(registry_, response);
  if (request->include_requests()) {
    for (const LiveRequest& live : service_.ListRequests(kMostRequestsListed)) {
      *response->add_requests() = ToProto(live);
    }
  }
  return Finish(RpcMethod::kStatus, grpc::Status::OK, context);
}

grpc::ServerUnaryReactor* AdminRpc::Cancel(grpc::CallbackServerContext* context,
                                           const v1::CancelRequest* request,
                                           v1::CancelResponse* /*response*/) {
  counts_.CountBegin();
  return Finish(RpcMethod::kCancel, ToGrpcStatus(service_.CancelById(request->request_id())), context);
}

grpc::ServerUnaryReactor* AdminRpc::Drain(grpc::CallbackServerContext* context,
                                          const v1::DrainRequest* /*request*/, v1::DrainResponse* response) {
  counts_.CountBegin();
  spdlog::info("draining: asked for by {}", context->peer());
  service_.BeginDrain();
  drained_();
  response->set_live_requests(service_.LiveRequests());
  return Finish(RpcMethod::kDrain, grpc::Status::OK, context);
}

grpc::ServerUnaryReactor* AdminRpc::Explain(grpc::CallbackServerContext* context,
                                            const v1::ExplainRequest* request,
                                            v1::ExplainResponse* response) {
  counts_.CountBegin();
  const std::int32_t limit = request->limit();
  if (limit < 0 || limit > static_cast<std::int32_t>(kMostRequestsListed)) {
    const auto why = skipjack::Status::InvalidArgument(
        fmt::format("limit must lie in [0, {}], got {}", kMostRequestsListed, limit));
    return Finish(RpcMethod::kExplain, ToGrpcStatus(why), context);
  }
  const std::size_t most = limit == 0 ? kRequestsExplained : static_cast<std::size_t>(limit);
  const auto explained = service_.Explain(request->request_id(), most);
  if (explained.ok()) {
    for (const RequestExplanation& explanation : *explained) *response->add_requests() = ToProto(explanation);
    response->set_live_requests(service_.LiveRequests());
  }
  return Finish(RpcMethod::kExplain, ToGrpcStatus(explained.status()), context);
}

grpc::ServerUnaryReactor* AdminRpc::Finish(RpcMethod method, const grpc::Status& status,
                                           grpc::CallbackServerContext* context) {
  counts_.CountEnd(method, status.error_code());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

}  // namespace skipjack
