// What moves between tiers beside the step: proactive swapping (FastServe, arXiv:2305.05920, section 4.3).
//
// Those who wait longest for their next step, by estimate, give the device up first; those who wait least
// come back first. Blocks are kept idle for the growth of those who run and for newcomers, so that neither
// waits for a copy. Nothing comes in while anything has to go out, and only what leaves the idle blocks
// alone.
#include <algorithm>
#include <utility>

#include "sched/step_scheduler.h"

namespace skipjack {
namespace {

// Sequences that one plan looks at in each direction.
constexpr std::size_t kLooks = 16;
// Of the time that the step is predicted to take, what its copies may take.
constexpr double kCopyPart = 0.9;
// Copies of a step whose time is not known, or that computes nothing.
constexpr std::int32_t kCopiesAtOnce = 64;
// Who is not expected to be served within so many steps like this one does not come back yet.
constexpr double kHorizonSteps = 64;
// Of the device's blocks: the part that is always kept idle, and the most that may be.
constexpr std::int32_t kIdleDivisor = 64;
constexpr std::int32_t kMostIdleDivisor = 4;
// Of the host's blocks, the part that is kept free by copying to disk.
constexpr std::int32_t kHostIdleDivisor = 16;
// Over which arrivals are averaged.
constexpr double kArrivalSeconds = 10;

}  // namespace

// Estimated time until its next step (ENST): until all who are ahead have ended or come down to its level, or
// until it is promoted for having waited too long. O(levels).
double StepScheduler::SecondsUntilServed(const Sequence& sequence, TimePoint now) const {
  const std::int64_t own = sequence.rank.policy.level;
  double ahead = 0;
  for (const auto& [level, count] : level_counts_) {
    if (level >= own) break;
    ahead += count * ToSeconds(policy_->ServiceBetween(level, own));
  }
  ahead /= config_.max_sequences;
  if (!sequence.promote_at.has_value()) return ahead;
  return std::min(ahead, std::max(ToSeconds(*sequence.promote_at - now), 0.0));
}

void StepScheduler::CountLevel(const Sequence& sequence, std::int32_t change) {
  if (!swaps_ahead()) return;
  const auto found = level_counts_.try_emplace(sequence.rank.policy.level, 0).first;
  found->second += change;
  if (found->second == 0) level_counts_.erase(found);
}

void StepScheduler::NoteArrivals(double elapsed_seconds) {
  const double part = std::min(elapsed_seconds / kArrivalSeconds, 1.0);
  if (elapsed_seconds > 0) {
    arriving_blocks_ +=
        part * (static_cast<double>(std::exchange(arrived_blocks_, 0)) / elapsed_seconds - arriving_blocks_);
  }
}

// Blocks that are to be there for those who run and for newcomers.
std::int32_t StepScheduler::IdleBlocks() const {
  const std::int32_t total = kv_.pool().total();
  const double burst = 2 * arriving_blocks_ * learnt_->latency.StepSeconds(load_);
  const auto wanted = static_cast<std::int32_t>(std::min<double>(burst, total)) + total / kIdleDivisor +
                      static_cast<std::int32_t>(running_.size());
  return std::min(wanted, total / kMostIdleDivisor);
}

std::int32_t StepScheduler::CopyBudget() const {
  if (!HasScheduled() || !learnt_->latency.fitted()) return kCopiesAtOnce;
  const double blocks =
      kCopyPart * learnt_->latency.StepSeconds(load_) / learnt_->latency.copy_seconds(Tier::kHost);
  return static_cast<std::int32_t>(std::clamp<double>(blocks, 1, kv_.pool().total()));
}

// Whether anything leaves the device that somebody waits for.
bool StepScheduler::PlanSwaps(TimePoint now) {
  if (!kv_.swaps()) return false;
  std::int32_t budget = CopyBudget();
  if (!swaps_ahead()) {
    kv_.Demote(config_.host_blocks / kHostIdleDivisor, budget);
    return false;
  }
  const std::int64_t idle = IdleBlocks();
  const std::int64_t missing = idle + room_wanted_ - kv_.ready();
  std::int32_t out = 0;
  if (missing > 0) {
    out = SwapOutLast(static_cast<std::int32_t>(std::min<std::int64_t>(missing, budget)), now);
    budget -= out;
  } else {
    const auto spare = static_cast<std::int32_t>(std::max<std::int64_t>(kv_.pool().free() - idle, 0));
    budget -= SwapInFirst(std::min(budget, spare), now);
    // Prefixes that would be evicted before long.
    if (kv_.pool().free() < idle) budget -= kv_.SwapOutUnwanted(budget);
  }
  kv_.Demote(config_.host_blocks / kHostIdleDivisor, budget);
  return out > 0;
}

std::int32_t StepScheduler::SwapOutLast(std::int32_t limit, TimePoint now) {
  swap_order_.clear();
  for (auto at = resident_.rbegin(); at != resident_.rend() && swap_order_.size() < kLooks; ++at) {
    if (*at != room_for_) swap_order_.emplace_back(SecondsUntilServed(**at, now), *at);
  }
  std::ranges::stable_sort(swap_order_, std::ranges::greater{},
                           [](const auto& entry) { return entry.first; });
  std::int32_t started = 0;
  for (const auto& [seconds, sequence] : swap_order_) {
    if (started >= limit || !kv_.swap_space().HasRoom()) break;
    const std::int32_t copies = kv_.SwapOut(&sequence->table, MatchableTokens(*sequence), limit - started);
    started += copies;
    // Fewer than it was thought to have: some were taken from it, and they are in lower tiers or lost.
    const bool all = started < limit;
    SetPlaces(sequence, all ? 0 : sequence->resident - copies,
              sequence->swapped + (all ? sequence->resident : copies));
  }
  return started;
}

std::int32_t StepScheduler::SwapInFirst(std::int32_t limit, TimePoint now) {
  const double horizon = kHorizonSteps * learnt_->latency.StepSeconds(load_);
  swap_order_.clear();
  for (auto at = swapped_.begin(); at != swapped_.end() && swap_order_.size() < kLooks; ++at) {
    swap_order_.emplace_back(SecondsUntilServed(**at, now), *at);
  }
  std::ranges::stable_sort(swap_order_, std::ranges::less{}, [](const auto& entry) { return entry.first; });
  std::int32_t started = 0;
  for (const auto& [seconds, sequence] : swap_order_) {
    if (seconds > horizon || started + sequence->swapped > limit) break;
    const std::int32_t copies = kv_.SwapIn(&sequence->table, MatchableTokens(*sequence), limit - started);
    started += copies;
    SetPlaces(sequence, sequence->resident + copies, 0);
  }
  return started;
}

// Of a waiting sequence: how many of its blocks lie where.
void StepScheduler::SetPlaces(Sequence* sequence, std::int32_t resident, std::int32_t swapped) {
  const bool was_resident = std::exchange(sequence->resident, resident) > 0;
  const bool was_swapped = std::exchange(sequence->swapped, swapped) > 0;
  if (was_resident && resident <= 0) resident_.erase(sequence);
  if (!was_resident && resident > 0) resident_.insert(sequence);
  if (was_swapped && swapped <= 0) swapped_.erase(sequence);
  if (!was_swapped && swapped > 0) swapped_.insert(sequence);
}

// Whether bringing a block back takes longer than computing it again.
bool StepScheduler::IsQuickerComputed(Tier tier, std::int32_t position) const {
  const LatencyModel& latency = learnt_->latency;
  return latency.fitted() &&
         latency.copy_seconds(tier) > latency.ChunkSeconds(config_.block_tokens, position);
}

// Leaves out of match_ what had better be computed again.
void StepScheduler::TrimMatch() {
  if (match_.swapped == 0) return;
  const TierSizes tiers = config_.tiers();
  for (std::size_t i = 0; i < match_.blocks.size(); ++i) {
    const Tier tier = tiers.Of(match_.blocks[i]);
    if (tier == Tier::kDevice ||
        !IsQuickerComputed(tier, static_cast<std::int32_t>(i) * config_.block_tokens))
      continue;
    kv_.Shorten(&match_, i);
    return;
  }
}

void StepScheduler::SettleCopies(const StepResult& result) {
  if (!kv_.has_copies()) return;
  learnt_->latency.ObserveCopies(Tier::kHost, host_copies_, result.host_copy_seconds);
  learnt_->latency.ObserveCopies(Tier::kDisk, disk_copies_, result.disk_copy_seconds);
  kv_.Settle(result.failed_copies);
  for (std::size_t i = 0; i < running_.size();) {
    Sequence* sequence = running_[i];
    const bool lost = std::exchange(sequence->loading, false) && kv_.IsBroken(sequence->table);
    if (!lost) {
      ++i;
      continue;
    }
    lost_.push_back({sequence->id, sequence->computed, PreemptionCause::kLostKv, 0});
    NotePreemption(sequence, *sequence, PreemptionCause::kLostKv);
    LeaveRunning(sequence);
  }
  kv_.Prune();
}

void StepScheduler::CountCopies(const StepPlan& plan) {
  const TierSizes tiers = config_.tiers();
  host_copies_ = 0;
  disk_copies_ = 0;
  for (const auto* copies : {&plan.copies_before, &plan.copies_beside}) {
    for (const BlockCopy& copy : *copies) {
      const bool disk = tiers.Of(copy.from) == Tier::kDisk || tiers.Of(copy.to) == Tier::kDisk;
      ++(disk ? disk_copies_ : host_copies_);
    }
  }
}

}  // namespace skipjack
