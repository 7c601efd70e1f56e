// First come, first served: by arrival, for life. Within a priority class nobody is pushed aside for a
// newcomer.
#pragma once

#include "sched/policy.h"

namespace skipjack {

class FcfsPolicy : public Policy {
 public:
  std::string_view name() const override { return "fcfs"; }

  PolicyKey KeyOf(const SequenceSnapshot& sequence) const override {
    return {.level = 0, .key = sequence.arrival.time_since_epoch().count()};
  }

  bool MayPreempt(const SequenceSnapshot& /*waiting*/, const SequenceSnapshot& /*running*/) const override {
    return false;
  }
};

}  // namespace skipjack
