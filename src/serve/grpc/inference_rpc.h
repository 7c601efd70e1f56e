// skipjack.v1.Inference over the inference service.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>

#include "serve/grpc/open_streams.h"
#include "serve/inference_service.h"
#include "skipjack/v1/inference.grpc.pb.h"

namespace skipjack {

class InferenceRpc final : public v1::Inference::CallbackService {
 public:
  InferenceRpc(InferenceService& service, std::int64_t max_pending_bytes)
      : service_(service), max_pending_bytes_(max_pending_bytes) {}

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
  std::uint64_t calls() const { return calls_; }

 private:
  // Counts the call and sends its request id back.
  grpc::ServerUnaryReactor* BeginUnary(grpc::CallbackServerContext* context);
  // Finishes the call with what `work` returns, computed on a worker.
  void FinishOnWorker(grpc::ServerUnaryReactor* reactor, std::function<Status()> work);

  InferenceService& service_;
  const std::int64_t max_pending_bytes_;
  OpenStreams streams_;
  std::atomic<std::uint64_t> calls_{0};
};

}  // namespace skipjack
