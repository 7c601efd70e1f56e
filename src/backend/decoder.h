// The llama decoder, written once for every device.
#pragma once

#include <cstdint>

#include "backend/operations.h"

namespace skipjack {

// Pre-norm transformer: embed, then per layer attention and a gated feed-forward, each added to the residual
// stream, then norm and head. Ends early, between two layers, when the step was interrupted.
void RunDecoder(std::int32_t layers, Operations& operations);

}  // namespace skipjack
