// From what the service reports to protocol messages. The output of Generate is in response_queue.h.
#pragma once

#include "registry/model_registry.h"
#include "serve/inference_service.h"
#include "skipjack/v1/admin.pb.h"
#include "skipjack/v1/inference.pb.h"

namespace skipjack {

v1::Model ToProto(const ModelInfo& model);
v1::LiveRequest ToProto(const LiveRequest& request);
v1::EngineStats ToProto(const EngineStats& stats);
v1::ModelStatus ToProto(const ModelStatus& status);

}  // namespace skipjack
