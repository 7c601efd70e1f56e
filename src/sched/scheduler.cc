#include "sched/scheduler.h"

#include <utility>

#include "sched/check_config.h"
#include "sched/policy.h"
#include "sched/step_scheduler.h"

namespace skipjack {

Result<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerConfig& config) {
  if (Status status = CheckSchedulerConfig(config); !status.ok()) return status;
  auto learnt =
      std::make_unique<Learnt>(Learnt{.latency = LatencyModel(config.latency),
                                      .lengths = {},
                                      .seats = config.max_sequences,
                                      .kv_tokens = std::int64_t{config.kv_blocks} * config.block_tokens});
  Result<std::unique_ptr<Policy>> policy = MakePolicy(config.policy, config.settings, *learnt);
  if (!policy.ok()) return policy.status();
  return std::unique_ptr<Scheduler>(
      std::make_unique<StepScheduler>(config, std::move(*policy), std::move(learnt)));
}

}  // namespace skipjack
