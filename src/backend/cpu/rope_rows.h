// Cosines and sines per position, from the frequencies of model/rope.h.
#pragma once

#include <cstdint>

#include "model/model_config.h"
#include "model/rope.h"

namespace skipjack {

// Writes a position's row: head_dim / 2 pairs (cosine, sine), computed in double; pairs beyond the rotated
// part of the head are (1, 0).
void FillRopeRow(const RopeTable& rope, std::int32_t position, std::int32_t head_dim, float* row);

// Index within a head of the number that packing puts at `rotated_index`: we rotate neighbours (2i, 2i+1), so
// a model that rotates halves (i, i + dimensions/2) has its query and key rows reordered at load. Attention
// scores do not change when queries and keys are permuted alike.
std::int32_t RopeSourceIndex(const RopeConfig& rope, std::int32_t rotated_index);

}  // namespace skipjack
