// A cost model file made of what a running daemon has learnt.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sched/latency_model.h"

namespace skipjack::cli {

struct LearntCosts {
  std::string name;    // of the cost model
  std::string source;  // who learnt it, for "sources"
  LatencyCoefficients latency;
  std::int64_t kv_tokens = 0;  // that the pool holds
  std::int32_t context_length = 0;
  double kv_bytes_per_token = 0;
  double host_bytes_per_second = 0;  // not learnt: given by the operator
};

// JSON that ParseCostFile() reads. A decode step costs in the simulator just what the daemon predicts; a
// prompt chunk costs one slice_seconds and the context_seconds of its context more, because the file charges
// these to every slice. A decoder that was learnt to take less than a prompt token, or a position less than a
// pair, is charged as much as that. FailedPrecondition where the daemon has not learnt what prompts and
// decoders take.
Result<std::string> MakeCostFile(const LearntCosts& learnt);

}  // namespace skipjack::cli
