// How many threads the container's CPU quota leaves us; separate from the live system for tests.
#pragma once

#include <string>

namespace skipjack {

// The CPUs that the cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us / cpu.cfs_period_us) quotas of this process
// and all its parent groups allow, rounded down, at least 1; `affinity_cpus` where there is no quota or it
// allows more. `root` is put before /proc and /sys ("" on the live system).
int ThreadsWithinQuota(const std::string& root, int affinity_cpus);

}  // namespace skipjack
