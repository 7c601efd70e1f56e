// How many KV blocks a model gets, and how long a context they allow.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "config/daemon_config.h"

namespace skipjack {

struct KvBudgetInput {
  std::int32_t model_context = 0;  // what the model was trained for
  std::int64_t block_bytes = 0;
  std::int64_t machine_bytes = 0;  // MemoryLedger::machine_bytes()
};

struct KvBudget {
  std::int32_t context_length = 0;
  std::int32_t blocks = 0;
  std::int32_t host_blocks = 0;
  std::int32_t disk_blocks = 0;
};

// kv.device_memory where it is set, else enough for max_sequences full contexts, but at most a quarter of the
// machine. kv.host_memory and kv.disk.size hold as many blocks as fit. A context_length that was asked for
// must fit into the blocks (InvalidArgument with both numbers); the model's own is shortened to what fits.
Result<KvBudget> PlanKvBudget(const ModelEntry& entry, const KvBudgetInput& input);

}  // namespace skipjack
