#include "backend/cpu/rope_rows.h"

#include <cmath>

namespace skipjack {

void FillRopeRow(const RopeTable& rope, std::int32_t position, std::int32_t head_dim, float* row) {
  const auto rotated = static_cast<std::int32_t>(rope.inverse_frequencies.size());
  for (std::int32_t i = 0; i < head_dim / 2; ++i) {
    const bool turns = i < rotated;
    const double angle =
        turns ? position * static_cast<double>(rope.inverse_frequencies[static_cast<std::size_t>(i)]) : 0.0;
    const double magnitude = turns ? rope.magnitude : 1.0;
    row[2 * i] = static_cast<float>(std::cos(angle) * magnitude);
    row[2 * i + 1] = static_cast<float>(std::sin(angle) * magnitude);
  }
}

std::int32_t RopeSourceIndex(const RopeConfig& rope, std::int32_t rotated_index) {
  if (rope.style == RopeStyle::kInterleaved || rotated_index >= rope.dimensions) return rotated_index;
  return rotated_index % 2 * (rope.dimensions / 2) + rotated_index / 2;
}

}  // namespace skipjack
