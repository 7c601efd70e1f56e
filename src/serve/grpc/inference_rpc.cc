#include "serve/grpc/inference_rpc.h"

#include <memory>
#include <utility>
#include <vector>

#include "serve/grpc/generate_stream.h"
#include "serve/grpc/request_conversion.h"
#include "serve/grpc/response_conversion.h"
#include "serve/grpc/rpc_support.h"

namespace skipjack {

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceRpc::Generate(grpc::CallbackServerContext* context,
                                                                       const v1::GenerateRequest* request) {
  counts_.CountBegin();
  const GenerateContext shared{.service = service_,
                               .streams = streams_,
                               .counts = counts_,
                               .waiting_bytes = waiting_bytes_,
                               .writer = writer_,
                               .max_pending_bytes = max_stream_bytes_};
  // gRPC made the message for this call and does not look at it again.
  auto* const message = const_cast<v1::GenerateRequest*>(request);
  const auto stream = std::make_shared<GenerateStream>(shared, context, message);
  stream->Run();
  return stream.get();
}

grpc::ServerUnaryReactor* InferenceRpc::Tokenize(grpc::CallbackServerContext* context,
                                                 const v1::TokenizeRequest* request,
                                                 v1::TokenizeResponse* response) {
  grpc::ServerUnaryReactor* reactor = BeginUnary(context);
  FinishOnWorker(
      RpcMethod::kTokenize, request->ByteSizeLong(), context, reactor, [this, request, response]() -> Status {
        const Result<Prompt> prompt = ToPrompt(*request);
        if (!prompt.ok()) return prompt.status();
        const bool add_special = request->has_add_special_tokens() ? request->add_special_tokens()
                                                                   : AddsSpecialTokens(request->has_chat());
        Result<TokenizeResult> result =
            service_.Tokenize(request->model(), *prompt, add_special, request->parse_special());
        if (!result.ok()) return result.status();
        response->mutable_ids()->Add(result->tokens.begin(), result->tokens.end());
        for (std::string& piece : result->pieces) response->add_pieces(std::move(piece));
        return {};
      });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceRpc::Detokenize(grpc::CallbackServerContext* context,
                                                   const v1::DetokenizeRequest* request,
                                                   v1::DetokenizeResponse* response) {
  grpc::ServerUnaryReactor* reactor = BeginUnary(context);
  FinishOnWorker(RpcMethod::kDetokenize, request->ByteSizeLong(), context, reactor,
                 [this, request, response]() -> Status {
                   const std::vector<std::int64_t> ids(request->ids().begin(), request->ids().end());
                   Result<std::string> text =
                       service_.Detokenize(request->model(), ids, request->skip_special_tokens());
                   if (!text.ok()) return text.status();
                   response->set_text(*std::move(text));
                   return {};
                 });
  return reactor;
}

grpc::ServerUnaryReactor* InferenceRpc::ListModels(grpc::CallbackServerContext* context,
                                                   const v1::ListModelsRequest* /*request*/,
                                                   v1::ListModelsResponse* response) {
  grpc::ServerUnaryReactor* reactor = BeginUnary(context);
  for (const ModelInfo& model : service_.ListModels()) *response->add_models() = ToProto(model);
  Finish(RpcMethod::kListModels, {}, reactor);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceRpc::GetModel(grpc::CallbackServerContext* context,
                                                 const v1::GetModelRequest* request, v1::Model* response) {
  grpc::ServerUnaryReactor* reactor = BeginUnary(context);
  const Result<ModelInfo> model = service_.GetModel(request->name());
  if (model.ok()) *response = ToProto(*model);
  Finish(RpcMethod::kGetModel, model.status(), reactor);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceRpc::BeginUnary(grpc::CallbackServerContext* context) {
  counts_.CountBegin();
  SendRequestId(RequestIdFrom(*context), context);
  return context->DefaultReactor();
}

void InferenceRpc::Finish(RpcMethod method, const Status& status, grpc::ServerUnaryReactor* reactor) {
  const grpc::Status end = ToGrpcStatus(status);
  counts_.CountEnd(method, end.error_code());
  reactor->Finish(end);
}

void InferenceRpc::FinishOnWorker(RpcMethod method, std::size_t message_bytes,
                                  grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* reactor,
                                  std::function<Status()> work) {
  auto share = std::make_shared<ByteShare>(waiting_bytes_);
  const bool fits = share->Grow(static_cast<std::int64_t>(message_bytes));
  const bool queued = fits && service_.RunOnWorker([this, method, reactor, share, work = std::move(work)] {
    const Status status = work();
    share->Release();
    Finish(method, status, reactor);
  });
  if (queued) return;
  SendRetryAfter(kOverloadRetrySeconds, context);
  Finish(method, TooMuchWaits(), reactor);
}

}  // namespace skipjack
