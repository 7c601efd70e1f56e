#include "sched/check_config.h"

#include <limits>
#include <string>
#include <utility>

#include "sched/policy.h"

namespace skipjack {
namespace {

Status CheckAtLeast(const char* name, std::int32_t value, std::int32_t minimum) {
  if (value >= minimum) return Status::Ok();
  return Status::InvalidArgument("scheduler: " + std::string(name) + " must be at least " +
                                 std::to_string(minimum) + ", got " + std::to_string(value));
}

}  // namespace

Status CheckSchedulerConfig(const SchedulerConfig& config) {
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
  const PolicySettings& settings = config.settings;
  if (settings.quantum < Duration::zero() || settings.starvation_bound < Duration::zero() ||
      settings.ageing_bound < Duration::zero() || config.token_gap_target < Duration::zero()) {
    return Status::InvalidArgument(
        "scheduler: quantum, starvation_bound, ageing_bound and token_gap_target must not be negative");
  }
  if (!(settings.hysteresis >= 0 && settings.hysteresis <= 100)) {
    return Status::InvalidArgument("scheduler: hysteresis must lie in [0, 100], got " +
                                   std::to_string(settings.hysteresis));
  }
  if (!(settings.protected_part >= 0 && settings.protected_part <= 1)) {
    return Status::InvalidArgument("scheduler: protected_part must lie in [0, 1], got " +
                                   std::to_string(settings.protected_part));
  }
  if (!(config.max_lost_part >= 0 && config.max_lost_part <= 1)) {
    return Status::InvalidArgument("scheduler: max_lost_part must lie in [0, 1], got " +
                                   std::to_string(config.max_lost_part));
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
  return MakePolicy(config.policy, settings, Learnt()).status();
}

}  // namespace skipjack
