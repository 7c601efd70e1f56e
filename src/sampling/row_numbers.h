// Numbers that the parts of RowDistribution share.
#pragma once

#include <cmath>
#include <limits>

namespace skipjack::row {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kLowest = std::numeric_limits<float>::lowest();
// Distances from the maximum, in units of temperature (nats), at which the search for a mass starts and ends.
inline constexpr double kFirstDepth = 2.0;
inline constexpr double kLastDepth = 128.0;  // weights are 0 from 88 on

inline float NextUp(float value) {
  return std::nextafter(value, kInfinity);
}

}  // namespace skipjack::row
