#include "sched/scheduler.h"

#include <limits>
#include <string>
#include <utility>

#include "sched/policy.h"
#include "sched/step_scheduler.h"

namespace skipjack {
namespace {

Status CheckAtLeast(const char* name, std::int32_t value, std::int32_t minimum) {
  if (value >= minimum) return Status::Ok();
  return Status::InvalidArgument("scheduler: " + std::string(name) + " must be at least " +
                                 std::to_string(minimum) + ", got " + std::to_string(value));
}

Status CheckConfig(const SchedulerConfig& config) {
  const std::pair<const char*, std::int32_t> positive[] = {
      {"max_batch_tokens", config.max_batch_tokens},
      {"max_sequences", config.max_sequences},
      {"max_queued", config.max_queued},
      {"block_tokens", config.block_tokens},
      {"kv_blocks", config.kv_blocks},
      {"context_length", config.context_length},
  };
  for (const auto& [name, value] : positive) {
    if (Status status = CheckAtLeast(name, value, 1); !status.ok()) return status;
  }
  if (config.max_batch_tokens < config.max_sequences) {
    return Status::InvalidArgument("scheduler: max_batch_tokens (" + std::to_string(config.max_batch_tokens) +
                                   ") must be at least max_sequences (" +
                                   std::to_string(config.max_sequences) +
                                   "), so that every sequence gets a token in every step");
  }
  // StepPlan::block_tables is indexed by 32-bit offsets.
  const std::int64_t blocks_per_sequence =
      (std::int64_t{config.context_length} + config.block_tokens - 1) / config.block_tokens;
  const std::int64_t table_entries = blocks_per_sequence * config.max_sequences;
  if (table_entries > std::numeric_limits<std::int32_t>::max()) {
    return Status::InvalidArgument("scheduler: max_sequences x context_length makes " +
                                   std::to_string(table_entries) + " block table entries; at most " +
                                   std::to_string(std::numeric_limits<std::int32_t>::max()) +
                                   " are possible");
  }
  return Status::Ok();
}

}  // namespace

Result<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerConfig& config) {
  if (Status status = CheckConfig(config); !status.ok()) return status;
  Result<std::unique_ptr<Policy>> policy = MakePolicy(config.policy);
  if (!policy.ok()) return policy.status();
  return std::unique_ptr<Scheduler>(std::make_unique<StepScheduler>(config, std::move(*policy)));
}

}  // namespace skipjack
