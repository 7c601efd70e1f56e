// From protocol messages to what the service takes. Only the form is checked here; values are the service's
// to check.
#pragma once

#include <google/protobuf/duration.pb.h>

#include "base/clock.h"
#include "base/status.h"
#include "serve/inference_service.h"
#include "skipjack/v1/inference.pb.h"

namespace skipjack {

// Without request id and call deadline, which are not in the message alone. Takes the prompt out of the
// message, so that a long one is not held twice while the call goes on.
Result<CompletionRequest> ToCompletionRequest(v1::GenerateRequest* message);
Result<Prompt> ToPrompt(const v1::TokenizeRequest& message);
// Where a request does not say: a chat template writes the start token itself, as the model's makers meant
// it.
bool AddsSpecialTokens(bool chat);

// Durations beyond 292 years become the longest there is.
Duration ToDuration(const google::protobuf::Duration& message);
google::protobuf::Duration ToProto(Duration duration);

}  // namespace skipjack
