// The two baselines that batch as earlier systems did; both are first come, first served.
#pragma once

#include "sched/fcfs_policy.h"

namespace skipjack {

// Request-level batching, as FasterTransformer does it: a batch is formed of whole prompts with room for all
// they may generate, and nobody joins until its longest member has ended.
class RequestPolicy final : public FcfsPolicy {
 public:
  std::string_view name() const override { return "request"; }
  AdmissionRules admission() const override {
    return {.reserves_max_tokens = true, .whole_prompts = true, .closed_batches = true};
  }
};

// Orca (OSDI'22): iteration-level, whole prompts, a slot for every token up to max_tokens reserved at
// admission.
class OrcaPolicy final : public FcfsPolicy {
 public:
  std::string_view name() const override { return "orca"; }
  AdmissionRules admission() const override { return {.reserves_max_tokens = true, .whole_prompts = true}; }
};

}  // namespace skipjack
