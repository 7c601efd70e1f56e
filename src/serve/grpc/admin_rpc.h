// skipjack.v1.Admin: what operators ask and tell.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>

#include "base/clock.h"
#include "registry/model_registry.h"
#include "serve/grpc/call_counts.h"
#include "serve/inference_service.h"
#include "skipjack/v1/admin.grpc.pb.h"

namespace skipjack {

class AdminRpc final : public v1::Admin::CallbackService {
 public:
  // `drained` runs after a Drain call took effect.
  AdminRpc(InferenceService& service, ModelRegistry& registry, CallCounts& counts, std::string version,
           std::function<void()> drained);

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const v1::StatusRequest* request,
                                   v1::StatusResponse* response) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context, const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context, const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override;

 private:
  grpc::ServerUnaryReactor* Finish(RpcMethod method, const grpc::Status& status,
                                   grpc::CallbackServerContext* context);

  InferenceService& service_;
  ModelRegistry& registry_;
  CallCounts& counts_;
  const std::string version_;
  const std::function<void()> drained_;
  const TimePoint start_;
};

}  // namespace skipjack
