// Why live requests wait, run or were preempted, for operators: what the engines say, in requests' names.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "serve/inference_service.h"

namespace skipjack {

class CompletionSession;

// One of each of `sessions` that has not ended. `live`: all that may be named in the answers.
std::vector<RequestExplanation> ExplainSessions(std::span<const std::shared_ptr<CompletionSession>> sessions,
                                                std::span<const std::shared_ptr<CompletionSession>> live);

}  // namespace skipjack
