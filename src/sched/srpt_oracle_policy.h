// Shortest remaining processing time with the true output lengths: a bound for the simulator, which knows
// them. Not known to MakePolicy().
#pragma once

#include <cmath>
#include <span>

#include "sched/policy.h"

namespace skipjack {

class SrptOraclePolicy final : public Policy {
 public:
  // output_tokens[i] is the true length of sequence i + 1. Both must outlive the policy.
  SrptOraclePolicy(std::span<const std::int32_t> output_tokens, const LatencyModel& latency)
      : output_tokens_(output_tokens), latency_(latency) {}

  std::string_view name() const override { return "srpt-oracle"; }

  // The level is what remains, in tokens; the prompt counts as the iterations it takes.
  PolicyKey KeyOf(const SequenceSnapshot& sequence) const override {
    const std::int32_t output = output_tokens_[static_cast<std::size_t>(sequence.sequence - 1)];
    const bool computed = sequence.generated_tokens > 0 || sequence.computed_tokens >= sequence.prompt_tokens;
    const double prompt =
        computed ? 0 : ToSeconds(sequence.expected_prefill) / ToSeconds(latency_.iteration());
    return {.level = output - sequence.generated_tokens + std::lround(prompt),
            .key = sequence.arrival.time_since_epoch().count()};
  }

  bool MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const override {
    return waiting.key->level < running.key->level;
  }

 private:
  const std::span<const std::int32_t> output_tokens_;
  const LatencyModel& latency_;
};

}  // namespace skipjack
