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
  ++calls_;
  const auto stream = std::make_shared<GenerateStream>(service_, streams_, max_pending_bytes_, context);
  stream->Run(*request);
  return stream.get();
}

grpc::ServerUnaryReactor* InferenceRpc::Tokenize(grpc::CallbackServerContext* context,
                                                 const v1::TokenizeRequest* request,
                                                 v1::TokenizeResponse* response) {
  grpc::ServerUnaryReactor* reactor = BeginUnary(context);
  FinishOnWorker(reactor, [this, request, response]() -> Status {
    const Result<Prompt> prompt = ToPrompt(*request);
    if (!prompt.ok()) return prompt.status();
    const bool add_special = request->has_add_special_tokens() ? request->add_special_tokens() : true;
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
  FinishOnWorker(reactor, [this, request, response]() -> Status {
    const std::vector<std::int64_t> ids(request->ids().begin(), request->ids().end());
    Result<std::string> text = service_.Detokenize(request->model(), ids, request->skip_special_tokens());
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
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceRpc::GetModel(grpc::CallbackServerContext* context,
                                                 const v1::GetModelRequest* request, v1::Model* response) {
  grpc::ServerUnaryReactor* reactor = BeginUnary(context);
  const Result<ModelInfo> model = service_.GetModel(request->name());
  if (model.ok()) *response = ToProto(*model);
  reactor->Finish(ToGrpcStatus(model.status()));
  return reactor;
}

grpc::ServerUnaryReactor* InferenceRpc::BeginUnary(grpc::CallbackServerContext* context) {
  ++calls_;
  SendRequestId(RequestIdFrom(*context), context);
  return context->DefaultReactor();
}

void InferenceRpc::FinishOnWorker(grpc::ServerUnaryReactor* reactor, std::function<Status()> work) {
  const bool queued =
      service_.RunOnWorker([reactor, work = std::move(work)] { reactor->Finish(ToGrpcStatus(work())); });
  if (queued) return;
  reactor->Finish(ToGrpcStatus(
      Status::ResourceExhausted("the server is overloaded: too much work waits for tokenising")));
}

}  // namespace skipjack
