// Requests in, results in, state out. Planning is in step_scheduler_plan.cc.
#include "sched/step_scheduler.h"

#include <algorithm>
#include <utility>

namespace skipjack {
namespace {

constexpr std::size_t kDumpedWaiting = 20;

std::string Describe(const Sequence& sequence) {
  return "sequence " + std::to_string(sequence.id) + " " + std::string(SequencePhaseName(sequence.phase())) +
         " class " + std::to_string(static_cast<int>(sequence.priority)) + " ticket " +
         std::to_string(sequence.ticket) + " computed " + std::to_string(sequence.computed) + "/" +
         std::to_string(sequence.size()) + " generated " + std::to_string(sequence.generated()) + "/" +
         std::to_string(sequence.max_tokens) + " blocks " + std::to_string(sequence.table.size()) + "/" +
         std::to_string(sequence.max_blocks) + " scheduled " + std::to_string(sequence.scheduled) +
         " preemptions " + std::to_string(sequence.preemptions);
}

}  // namespace

StepScheduler::StepScheduler(const SchedulerConfig& config, std::unique_ptr<Policy> policy)
    : config_(config),
      policy_(std::move(policy)),
      kv_(KvConfig{config.kv_blocks, config.block_tokens, config.prefix_cache}) {
  running_.reserve(static_cast<std::size_t>(config_.max_sequences));
  draining_.reserve(static_cast<std::size_t>(config_.max_sequences));
}

Status StepScheduler::CheckSubmit(const SubmitRequest& request) const {
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  if (Status status = CheckFits(config_, prompt_tokens, request.max_tokens); !status.ok()) return status;
  if (sequences_.contains(request.sequence)) {
    return Status::AlreadyExists("sequence " + std::to_string(request.sequence) + " is already scheduled");
  }
  if (waiting_.size() >= static_cast<std::size_t>(config_.max_queued)) {
    return Status::ResourceExhausted("the queue is full: " + std::to_string(waiting_.size()) +
                                     " sequences wait, max_queued is " + std::to_string(config_.max_queued));
  }
  return Status::Ok();
}

Status StepScheduler::Submit(SubmitRequest request) {
  if (Status status = CheckSubmit(request); !status.ok()) return status;
  BlockTable table = kv_.Open(request.cache_salt);
  auto sequence = std::make_unique<Sequence>(std::move(request), next_ticket_++, std::move(table));
  sequence->max_blocks = kv_.BlocksFor(std::int64_t{sequence->prompt_tokens} + sequence->max_tokens - 1);
  sequence->rank = RankOf(*sequence);
  waiting_.Insert(sequence.get());
  sequences_.emplace(sequence->id, std::move(sequence));
  return Status::Ok();
}

void StepScheduler::Cancel(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  Sequence* sequence = found->second.get();
  if (in_flight_ && sequence->scheduled > 0) draining_.push_back(std::move(found->second));
  if (sequence->phase() == SequencePhase::kWaiting || sequence->phase() == SequencePhase::kPreempted) {
    waiting_.Erase(sequence);
  } else {
    EraseRunning(sequence);
  }
  Move(sequence, SequencePhase::kFinished);
  sequences_.erase(found);
}

void StepScheduler::Complete(const StepResult& result, TimePoint /*now*/) {
  if (!in_flight_ || result.step != last_step_) return;
  in_flight_ = false;
  draining_.clear();
  if (result.failed) {
    repeat_ = true;
    return;
  }
  AttachOutcomes(result);
  bool out_of_order = false;
  std::size_t kept = 0;
  for (Sequence* sequence : running_) {
    if (sequence->scheduled > 0) {
      if (!Advance(sequence)) {
        Finish(sequence);
        continue;
      }
      out_of_order |= Rerank(sequence);
    }
    running_[kept++] = sequence;
  }
  running_.resize(kept);
  if (out_of_order) {
    std::ranges::sort(running_, {}, [](const Sequence* sequence) -> const Rank& { return sequence->rank; });
  }
}

void StepScheduler::AttachOutcomes(const StepResult& result) {
  for (const SliceOutcome& outcome : result.outcomes) {
    const auto found = sequences_.find(outcome.sequence);
    if (found == sequences_.end() || found->second->scheduled == 0 || found->second->outcome != nullptr)
      continue;
    found->second->outcome = &outcome;
  }
}

// Books what the completed step did for one sequence. False when that ended it.
bool StepScheduler::Advance(Sequence* sequence) {
  const SliceOutcome* outcome = std::exchange(sequence->outcome, nullptr);
  const bool samples = sequence->samples();
  std::int32_t computed = std::exchange(sequence->scheduled, 0);
  // Without its token a sample is lost, and the last position is computed once more.
  if (samples && outcome == nullptr) --computed;

  recomputed_tokens_ +=
      static_cast<std::uint64_t>(std::clamp(sequence->most_computed - sequence->computed, 0, computed));
  sequence->computed += computed;
  sequence->most_computed = std::max(sequence->most_computed, sequence->computed);
  if (outcome != nullptr && outcome->finished && outcome->tainted) {
    kv_.Withdraw(sequence->table);
    return false;
  }
  kv_.Publish(&sequence->table, sequence->computed_tokens());
  if (outcome != nullptr && outcome->finished) return false;
  if (!samples || outcome == nullptr) return true;

  sequence->tokens.push_back(outcome->token);
  if (sequence->generated() >= sequence->max_tokens) return false;
  if (sequence->phase() == SequencePhase::kPrefilling) Move(sequence, SequencePhase::kDecoding);
  return true;
}

void StepScheduler::Finish(Sequence* sequence) {
  Move(sequence, SequencePhase::kFinished);
  const SequenceId id = sequence->id;
  sequences_.erase(id);
}

Rank StepScheduler::RankOf(const Sequence& sequence) const {
  return {.priority = sequence.priority,
          .policy = policy_->KeyOf(sequence.Snapshot()),
          .ticket = sequence.ticket};
}

bool StepScheduler::Rerank(Sequence* sequence) {
  const Rank rank = RankOf(*sequence);
  return std::exchange(sequence->rank, rank) != rank;
}

void StepScheduler::Move(Sequence* sequence, SequencePhase next) {
  if (!sequence->MoveTo(next)) ++illegal_moves_;
}

std::optional<SequenceState> StepScheduler::Find(SequenceId id) const {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return std::nullopt;
  const Sequence& sequence = *found->second;
  const bool running =
      sequence.phase() == SequencePhase::kPrefilling || sequence.phase() == SequencePhase::kDecoding;
  return SequenceState{.phase = running ? SequenceState::Phase::kRunning : SequenceState::Phase::kWaiting,
                       .prompt_tokens = sequence.prompt_tokens,
                       .generated_tokens = sequence.generated(),
                       .computed_tokens = sequence.computed,
                       .cached_tokens = sequence.cached_tokens,
                       .preemptions = sequence.preemptions};
}

SchedulerStats StepScheduler::Stats() const {
  return {.waiting = static_cast<std::int32_t>(waiting_.size()),
          .running = static_cast<std::int32_t>(running_.size()),
          .swapped = 0,
          .blocks_total = kv_.pool().total(),
          .blocks_used = kv_.pool().used(),
          .blocks_cached = kv_.pool().cached(),
          .blocks_free = kv_.pool().free(),
          .preemptions = preemptions_,
          .recomputed_tokens = recomputed_tokens_,
          .prefix_queries_tokens = prefix_query_tokens_,
          .prefix_hit_tokens = prefix_hit_tokens_,
          .faults = illegal_moves_ + static_cast<std::uint64_t>(kv_.pool().misuses())};
}

std::string StepScheduler::DebugString() const {
  const SchedulerStats stats = Stats();
  std::string out = "policy " + std::string(policy_->name()) + ", step " + std::to_string(last_step_) +
                    (in_flight_ ? " in flight" : "") + (repeat_ ? " to be repeated" : "") +
                    "\nblocks: " + std::to_string(stats.blocks_total) + " total, " +
                    std::to_string(stats.blocks_used) + " used, " + std::to_string(stats.blocks_cached) +
                    " cached, " + std::to_string(stats.blocks_free) +
                    " free\nrunning: " + std::to_string(running_.size()) +
                    ", cancelled in flight: " + std::to_string(draining_.size()) + '\n';
  for (const Sequence* sequence : running_) out += "  " + Describe(*sequence) + '\n';
  out += "waiting: " + std::to_string(waiting_.size()) + '\n';
  std::size_t listed = 0;
  for (const Sequence* sequence : waiting_) {
    if (listed++ == kDumpedWaiting) {
      out += "  and " + std::to_string(waiting_.size() - kDumpedWaiting) + " more\n";
      break;
    }
    out += "  " + Describe(*sequence) + '\n';
  }
  return out;
}

}  // namespace skipjack
