// What is simulated: lengths, arrivals and tenants, drawn from a seed or read from a trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "sched/simulator.h"

namespace skipjack::cli {

struct SimWorkload {
  // A name of WorkloadNames(), or one of `skipjack bench --lengths`.
  std::string name = "sharegpt-2k";
  std::string trace = {};  // a JSONL file instead
  std::int32_t requests = 1000;
  std::uint64_t seed = 0;
  // Requests per second; 0: all at once; none: the trace's own arrivals, 1 per second where there is no
  // trace.
  std::optional<double> rate = {};
  // Requests ask for: full (all that the context leaves), pow2 (the next power of two), exact.
  std::string max_tokens = "full";
  double cv = 0;  // of the gaps between arrivals; 0: the workload's own
  std::int32_t context_length = 2048;
};

// "name: what it is", for --help and errors.
std::vector<std::string> WorkloadNames();

// Ordered by arrival. The requests depend on name, seed, max_tokens and context_length; the rate only spreads
// them.
Result<std::vector<SimulatedRequest>> MakeSimWorkload(const SimWorkload& options);

// A line of a trace, as MakeSimWorkload() and `skipjack bench --trace` read it.
std::string TraceLine(const SimulatedRequest& request);

}  // namespace skipjack::cli
