// Identifiers every module shares.
#pragma once

#include <cstdint>

namespace skipjack {

// Index into a model's vocabulary. Values are checked at the edge (serve) to lie below the embedding rows.
using TokenId = std::int32_t;

// Names one sequence (one prompt and its continuation) for the life of the process; never reused.
using SequenceId = std::uint64_t;

// Index of a KV block inside its pool.
using BlockId = std::int32_t;

}  // namespace skipjack
