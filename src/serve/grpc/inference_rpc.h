// skipjack.v1.Inference over the inference service.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "serve/byte_budget.h"
#include "serve/grpc/call_counts.h"
#include "serve/grpc/open_streams.h"
#include "serve/grpc/writer_thread.h"
#include "serve/inference_service.h"
#include "skipjack/v1/inference.grpc.pb.h"

namespace skipjack {

class InferenceRpc final : public v1::Inference::CallbackService {
 public:
  // Of each stream's unsent output, and of all messages together that wait for a worker.
  struct Limits {
    std::int64_t max_stream_bytes = 0;
    std::int64_t max_pending_bytes = 0;
  };

  InferenceRpc(InferenceService& service, CallCounts& counts, const Limits& limits)
      : service_(service),
        counts_(counts),
        max_stream_bytes_(limits.max_stream_bytes),
        waiting_bytes_(std::make_shared<ByteBudget>(limits.max_pending_bytes)) {}

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(grpc::CallbackServerContext* context,
                                                           const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
                                     v1::Model* response) override;

  OpenStreams& streams() { return streams_; }
  const OpenStreams& streams() const { return streams_; }

 private:
  // Counts the call and sends its request id back.
  grpc::ServerUnaryReactor* BeginUnary(grpc::CallbackServerContext* context);
  void Finish(RpcMethod method, const Status& status, grpc::ServerUnaryReactor* reactor);
  // Finishes the call with what `work` returns, computed on a worker. Until then `message_bytes` wait.
  void FinishOnWorker(RpcMethod method, std::size_t message_bytes, grpc::CallbackServerContext* context,
                      grpc::ServerUnaryReactor* reactor, std::function<Status()> work);

  InferenceService& service_;
  CallCounts& counts_;
  const std::int64_t max_stream_bytes_;
  const std::shared_ptr<ByteBudget> waiting_bytes_;
  OpenStreams streams_;
  WriterThread writer_;
};

}  // namespace skipjack
