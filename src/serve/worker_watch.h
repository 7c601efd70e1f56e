// Notices that work for the tokenising workers waits or runs for too long: a worker that hangs, or all of
// them. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/status.h"

namespace skipjack {

class WorkerWatch {
 public:
  using Ticket = std::uint64_t;

  // `limit`: how old the oldest piece of work may be.
  WorkerWatch(const Clock& clock, Duration limit) : clock_(clock), limit_(limit) {}

  // A piece of work is on its way to the workers; it is over (or was refused) with Done().
  Ticket Posted();
  void Done(Ticket ticket);

  // Unavailable while there is older work than the limit.
  Status Health() const;

 private:
  const Clock& clock_;
  const Duration limit_;
  mutable std::mutex mutex_;
  Ticket last_ = 0;
  std::map<Ticket, TimePoint> posted_;  // tickets count up, so the oldest comes first
};

}  // namespace skipjack
