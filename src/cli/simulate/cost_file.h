// A cost model as a file: what one step of one model on one machine takes, how much KV it holds, and where
// each constant comes from.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sched/simulator.h"

namespace skipjack::cli {

struct CostFile {
  std::string name;
  StepCostModel cost;
  std::int32_t kv_tokens = 0;  // that the KV pool holds
  std::int32_t context_length = 0;
  double copy_token_seconds = 0;  // the KV of one token between device and host, one way
};

// InvalidArgument names the key. Every number must have a source: a key without its entry in "sources" is
// refused, and so is a key that is not known.
Result<CostFile> ParseCostFile(const std::string& json, const std::string& origin);
Result<CostFile> LoadCostFile(const std::string& path);

}  // namespace skipjack::cli
