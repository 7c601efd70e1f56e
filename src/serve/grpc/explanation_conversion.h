// Explanations and timelines, as messages.
#pragma once

#include "serve/inference_service.h"
#include "skipjack/v1/admin.pb.h"
#include "skipjack/v1/inference.pb.h"

namespace skipjack {

v1::Timeline ToProto(const ChoiceTimeline& choice);
v1::RequestExplanation ToProto(const RequestExplanation& explanation);

}  // namespace skipjack
