// From what the service reports to protocol messages.
#pragma once

#include "registry/model_registry.h"
#include "serve/inference_service.h"
#include "skipjack/v1/admin.pb.h"
#include "skipjack/v1/inference.pb.h"

namespace skipjack {

struct ResponseOptions {
  bool prompt_token_ids = false;
  bool tokens = false;
  bool logprobs = false;
};

void AddStarted(Accepted accepted, const ResponseOptions& options, v1::GenerateResponse* response);
// Joins with a delta of the same choice that is there already. Returns about how many bytes it added.
std::size_t AddDelta(ChoiceDelta delta, const ResponseOptions& options, v1::GenerateResponse* response);
void AddFinish(ChoiceFinish finish, v1::GenerateResponse* response);
void AddCompleted(const Completed& completed, v1::GenerateResponse* response);

v1::Model ToProto(const ModelInfo& model);
v1::LiveRequest ToProto(const LiveRequest& request);
v1::EngineStats ToProto(const EngineStats& stats);
v1::ModelStatus ToProto(const ModelStatus& status);

}  // namespace skipjack
