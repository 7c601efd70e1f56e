// Encodes numbers into the blocks of GGUF types, simply but well enough for models of random weights.
#pragma once

#include <span>
#include <string>

#include "tensor/dtype.h"

namespace skipjack {

// F32, F16, Q4_0, Q4_1, Q8_0, Q4_K or Q6_K; anything else fails the test. `values`: whole blocks.
std::string QuantiseRow(DType type, std::span<const float> values);

}  // namespace skipjack
