#include "serve/worker_watch.h"

#include <fmt/format.h>

namespace skipjack {

WorkerWatch::Ticket WorkerWatch::Posted() {
  std::lock_guard lock(mutex_);
  posted_.emplace_hint(posted_.end(), ++last_, clock_.Now());
  return last_;
}

void WorkerWatch::Done(Ticket ticket) {
  std::lock_guard lock(mutex_);
  posted_.erase(ticket);
}

Status WorkerWatch::Health() const {
  std::lock_guard lock(mutex_);
  if (posted_.empty()) return Status::Ok();
  const Duration age = clock_.Now() - posted_.begin()->second;
  if (age <= limit_) return Status::Ok();
  return Status::Unavailable(fmt::format(
      "tokenising stands still: the oldest of {} pieces of work has waited or run for {:.1f} s, the limit is "
      "{:.1f} s",
      posted_.size(), ToSeconds(age), ToSeconds(limit_)));
}

}  // namespace skipjack
