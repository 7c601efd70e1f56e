// How a row of equal pieces is divided among the lanes of a team: contiguous, as even as possible, always the
// same, so that the lane that packed a panel of weights (and first touched its memory) is the one that
// multiplies with it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace skipjack {

struct WorkShare {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }

  // Lane's part of [0, count), cut at multiples of `unit`.
  static WorkShare Of(std::int64_t count, int lanes, int lane, std::int64_t unit = 1) {
    const std::int64_t units = (count + unit - 1) / unit;
    const std::int64_t begin = units * lane / lanes * unit;
    const std::int64_t end = units * (lane + 1) / lanes * unit;
    return {std::min(begin, count), std::min(end, count)};
  }

  // The part of [offset, offset + count) that lies in this share, counted from `offset`.
  WorkShare Within(std::int64_t offset, std::int64_t count) const {
    const std::int64_t first = std::clamp<std::int64_t>(begin - offset, 0, count);
    return {first, std::max(first, std::clamp<std::int64_t>(end - offset, 0, count))};
  }
};

}  // namespace skipjack
