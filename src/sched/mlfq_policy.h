// Skip-join multi-level feedback queues (FastServe, arXiv:2305.05920).
//
// Queue i has a quantum of q 2^i, where q is the minimum iteration time. A newcomer joins the first queue
// whose quantum holds its prompt: a long prompt skips the queues it would only pass through. Whoever has used
// up a quantum sinks to the next queue. Within a queue it is first come, first served: who sinks or is
// promoted goes to the back of its new queue, who is pushed out keeps its place. Whoever was not served for
// the starvation bound goes to the first queue. FastServe lets it start anew there; here it stays for the
// quantum of the queue that it left, without sinking through those in between, so that being promoted is
// worth bringing its KV back.
#pragma once

#include "sched/policy.h"

namespace skipjack {

class MlfqPolicy final : public Policy {
 public:
  // `latency` must outlive the policy.
  MlfqPolicy(const PolicySettings& settings, const LatencyModel& latency)
      : settings_(settings), latency_(latency) {}

  std::string_view name() const override { return "mlfq"; }
  PolicyKey KeyOf(const SequenceSnapshot& sequence) const override;
  bool MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const override;
  std::optional<Promotion> PromotionOf(const SequenceSnapshot& sequence) const override;

  // The quanta of the levels in between: q (2^behind - 2^ahead).
  Duration ServiceBetween(std::int64_t ahead, std::int64_t behind) const override;

  std::int64_t LevelOf(const SequenceSnapshot& sequence) const;

 private:
  Duration Quantum() const {
    return settings_.quantum > Duration::zero() ? settings_.quantum : latency_.iteration();
  }

  const PolicySettings settings_;
  const LatencyModel& latency_;
};

// The key of a queue that is first in, first out: a sequence keeps its place as long as its level stays.
PolicyKey FifoKey(std::int64_t level, const SequenceSnapshot& sequence);

}  // namespace skipjack
