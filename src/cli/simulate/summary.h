// What a simulation measured, per policy and load, as numbers, as a table and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/bench/report.h"

namespace skipjack::cli {

// Of one request that ended. Seconds.
struct Sample {
  double jct = 0;         // arrival to last token
  double normalized = 0;  // jct / output tokens
  double ttft = 0;        // arrival to first token
  double tpot = 0;        // per token after the first; of requests with several tokens
  bool has_tpot = false;
  double slowdown = 0;  // jct over that of a machine with nothing else to do
};

using Quantity = Distribution;

// One policy at one load, all seeds together.
struct SimPoint {
  std::string policy;
  double load = 0;  // of the reference's saturation
  double rate = 0;  // requests per second
  Quantity jct;
  Quantity normalized;
  Quantity ttft;
  Quantity tpot;
  Quantity slowdown;
  std::vector<double> jct_mean_of_seeds;
  std::uint64_t requests = 0;  // measured: without the warm-up
  std::uint64_t refused = 0;
  double preemptions_per_request = 0;
  double promotions_per_request = 0;
  double restored_part = 0;              // of the tokens computed, those whose KV had been there before
  double restoring_part = 0;             // of the busy time, what those cost
  double copied_tokens_per_request = 0;  // whose KV was copied between tiers
  double copying_part = 0;               // of the busy time, waiting for copies
  double busy_part = 0;                  // of the simulated time
  double output_tokens_per_second = 0;
  // About the simulation itself.
  std::uint64_t steps = 0;
  double wall_seconds = 0;
};

void SummarizeSamples(std::span<const Sample> samples, SimPoint* point);

std::string SimTable(std::span<const SimPoint> points);
nlohmann::json SimJson(std::span<const SimPoint> points);

}  // namespace skipjack::cli
