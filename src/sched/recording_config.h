// The fields of a configuration that a recording holds.
#pragma once

#include "sched/scheduler.h"

namespace skipjack {

// Every field that decides what is planned, by name.
template <typename Config, typename Visit>
void VisitConfig(Config& config, const Visit& visit) {
  visit("policy", config.policy);
  visit("quantum", config.settings.quantum);
  visit("starvation_bound", config.settings.starvation_bound);
  visit("ageing_bound", config.settings.ageing_bound);
  visit("hysteresis", config.settings.hysteresis);
  visit("protected_part", config.settings.protected_part);
  visit("max_lost_part", config.max_lost_part);
  visit("future_admission", config.future_admission);
  visit("tenant_fairness", config.tenant_fairness);
  visit("token_gap_target", config.token_gap_target);
  visit("latency_step", config.latency.step);
  visit("latency_decoder", config.latency.decoder);
  visit("latency_context", config.latency.context);
  visit("latency_prompt_token", config.latency.prompt_token);
  visit("latency_prompt_pair", config.latency.prompt_pair);
  visit("max_batch_tokens", config.max_batch_tokens);
  visit("max_sequences", config.max_sequences);
  visit("max_queued", config.max_queued);
  visit("block_tokens", config.block_tokens);
  visit("kv_blocks", config.kv_blocks);
  visit("host_blocks", config.host_blocks);
  visit("disk_blocks", config.disk_blocks);
  visit("swap", config.swap);
  visit("context_length", config.context_length);
  visit("prefix_cache", config.prefix_cache);
}

}  // namespace skipjack
