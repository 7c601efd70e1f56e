// Deals the pieces of one phase to the lanes: each works through its own share (see work_share.h) and then
// helps the others. On a quiet machine of equal cores everybody keeps to his own weights; where a core is
// slower or taken away for a while, the others do not wait for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "backend/cpu/work_share.h"

namespace skipjack {

class WorkQueue {
 public:
  explicit WorkQueue(int lanes)
      : lanes_(lanes), taken_(std::make_unique<Counter[]>(static_cast<std::size_t>(lanes * kGenerations))) {}

  // Calls body(WorkShare) for parts of [0, count), cut at multiples of `unit`, so that all lanes together
  // cover it once. Every lane calls it for every phase, with the same numbers and `phase` counting up by one,
  // and a barrier lies between the phases.
  template <typename Body>
  void Run(int lane, std::uint64_t phase, std::int64_t count, std::int64_t unit, Body&& body) {
    // Nobody uses the counters of the next phase: they were those of the last but one, a barrier ago.
    Taken(phase + 1, lane).store(0, std::memory_order_relaxed);
    if (lanes_ == 1) {
      if (count > 0) body(WorkShare{0, count});
      return;
    }
    const std::int64_t piece = WorkShare::Of(count, lanes_ * kPiecesPerLane, 0, unit).size() + unit;
    for (int i = 0; i < lanes_; ++i) {
      const int owner = (lane + i) % lanes_;
      const WorkShare share = WorkShare::Of(count, lanes_, owner, unit);
      std::atomic<std::int64_t>& taken = Taken(phase, owner);
      while (taken.load(std::memory_order_relaxed) < share.size()) {
        const std::int64_t begin = share.begin + taken.fetch_add(piece, std::memory_order_relaxed);
        if (begin < share.end) body(WorkShare{begin, std::min(begin + piece, share.end)});
      }
    }
  }

 private:
  static constexpr std::uint64_t kGenerations = 3;
  static constexpr int kPiecesPerLane = 6;

  struct alignas(64) Counter {
    std::atomic<std::int64_t> value{0};
  };

  std::atomic<std::int64_t>& Taken(std::uint64_t phase, int lane) {
    return taken_[static_cast<std::size_t>(phase % kGenerations) * static_cast<std::size_t>(lanes_) +
                  static_cast<std::size_t>(lane)]
        .value;
  }

  const int lanes_;
  std::unique_ptr<Counter[]> taken_;
};

}  // namespace skipjack
