// What Scheduler::Create() refuses, without making a scheduler.
#pragma once

#include "base/status.h"
#include "sched/scheduler.h"

namespace skipjack {

// InvalidArgument names an unknown policy (listing the known ones) or the numbers that contradict each other.
Status CheckSchedulerConfig(const SchedulerConfig& config);

}  // namespace skipjack
