// Distributions of prompt and output lengths (tokens), fitted to published traces.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "base/status.h"

namespace skipjack::cli {

struct Lengths {
  std::int32_t prompt = 0;
  std::int32_t output = 0;
};

using Random = std::mt19937_64;
using LengthSampler = std::function<Lengths(Random&)>;

// See WorkloadOptions::lengths for the names.
Result<LengthSampler> MakeLengthSampler(const std::string& name);

// Uniform in [0, 1), the same on every standard library.
double Uniform(Random& random);
double Normal(Random& random);
// Marsaglia and Tsang (2000); shape > 0, scale 1.
double Gamma(Random& random, double shape);

}  // namespace skipjack::cli
