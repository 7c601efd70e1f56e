// What must be true of a StepScheduler between any two calls.
#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "sched/step_scheduler.h"

namespace skipjack {
namespace {

Status Fault(const Sequence& sequence, const std::string& what) {
  return Status::Internal("scheduler: sequence " + std::to_string(sequence.id) + " " + what);
}

Status CheckWaiting(const Sequence& sequence) {
  if (sequence.phase() != SequencePhase::kWaiting && sequence.phase() != SequencePhase::kPreempted) {
    return Fault(sequence, "waits as " + std::string(SequencePhaseName(sequence.phase())));
  }
  if (sequence.table.size() != 0 || sequence.computed != 0 || sequence.scheduled != 0) {
    return Fault(sequence, "waits but holds KV");
  }
  return Status::Ok();
}

Status CheckRunning(const Sequence& sequence, const KvManager& kv, bool plan_pending) {
  if (sequence.phase() != SequencePhase::kPrefilling && sequence.phase() != SequencePhase::kDecoding) {
    return Fault(sequence, "runs as " + std::string(SequencePhaseName(sequence.phase())));
  }
  if (sequence.remaining() < 1 || sequence.scheduled > sequence.remaining()) {
    return Fault(sequence, "has computed more than it has tokens");
  }
  if (sequence.phase() == SequencePhase::kDecoding && sequence.remaining() != 1) {
    return Fault(sequence, "decodes with " + std::to_string(sequence.remaining()) + " tokens to compute");
  }
  const std::int32_t needed = sequence.phase() == SequencePhase::kPrefilling
                                  ? sequence.size()
                                  : sequence.computed + sequence.scheduled;
  if (sequence.table.size() < kv.BlocksFor(needed) || sequence.table.size() > sequence.max_blocks) {
    return Fault(sequence, "has " + std::to_string(sequence.table.size()) + " blocks for " +
                               std::to_string(needed) + " tokens, at most " +
                               std::to_string(sequence.max_blocks));
  }
  if (sequence.scheduled > 0 && !plan_pending) return Fault(sequence, "is scheduled without a plan");
  // Whatever is still to be written belongs to this sequence alone.
  for (std::int32_t i = sequence.computed / kv.block_tokens(); i < sequence.table.size(); ++i) {
    const BlockId block = sequence.table.blocks()[static_cast<std::size_t>(i)];
    if (kv.pool().References(block) != 1 || kv.index().Contains(block)) {
      return Fault(sequence, "would write into block " + std::to_string(block) + ", which is shared");
    }
  }
  return Status::Ok();
}

}  // namespace

Status StepScheduler::CheckInvariants() const {
  if (illegal_moves_ != 0) {
    return Status::Internal("scheduler: " + std::to_string(illegal_moves_) + " illegal changes of phase");
  }
  if (waiting_.size() + running_.size() != sequences_.size()) {
    return Status::Internal("scheduler: " + std::to_string(sequences_.size()) + " sequences, but " +
                            std::to_string(waiting_.size()) + " waiting and " +
                            std::to_string(running_.size()) + " running");
  }
  if (running_.size() > static_cast<std::size_t>(config_.max_sequences)) {
    return Status::Internal("scheduler: more running sequences than seats");
  }
  std::size_t starving = 0;
  std::size_t expiring = 0;
  std::array<std::int32_t, kLevelBands> by_level{};
  for (const Sequence* sequence : waiting_) {
    ++by_level[sequence->band];
    if (Status status = CheckWaiting(*sequence); !status.ok()) return status;
    starving += sequence->promote_at.has_value() ? 1 : 0;
    expiring += sequence->late_at.has_value() ? 1 : 0;
  }
  if (by_level != waiting_.by_level()) {
    return Status::Internal("scheduler: the waiting sequences are counted at wrong levels");
  }
  if (starving != starving_.size() || expiring != expiring_.size()) {
    return Status::Internal("scheduler: the review queues hold others than those who wait");
  }
  std::int32_t promoted = 0;
  std::int32_t promoted_blocks = 0;
  for (const auto& [id, sequence] : sequences_) {
    promoted += sequence->promoted ? 1 : 0;
    promoted_blocks += sequence->promoted_blocks;
  }
  if (promoted != promoted_ || promoted_blocks != promoted_blocks_) {
    return Status::Internal("scheduler: " + std::to_string(promoted) + " promoted, counted as " +
                            std::to_string(promoted_));
  }
  for (const Sequence* sequence : running_) {
    if (Status status = CheckRunning(*sequence, kv_, in_flight_ || repeat_); !status.ok()) return status;
    if (sequence->promote_at.has_value() || sequence->late_at.has_value()) {
      return Fault(*sequence, "runs and is listed for review");
    }
  }
  if (!std::ranges::is_sorted(running_, {}, [](const Sequence* s) -> const Rank& { return s->rank; })) {
    return Status::Internal("scheduler: the running sequences are out of order");
  }
  std::vector<const BlockTable*> tables;
  for (const auto& [id, sequence] : sequences_) {
    if (sequence->id != id) return Fault(*sequence, "is filed under " + std::to_string(id));
    tables.push_back(&sequence->table);
  }
  for (const auto& sequence : draining_) {
    if (!in_flight_) return Fault(*sequence, "drains without a plan in flight");
    tables.push_back(&sequence->table);
  }
  return kv_.CheckInvariants(tables);
}

}  // namespace skipjack
