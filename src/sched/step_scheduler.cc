// Requests in, results in, state out. Planning is in step_scheduler_plan.cc.
#include "sched/step_scheduler.h"

#include <algorithm>
#include <numeric>
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
         " preemptions " + std::to_string(sequence.preemptions) + " level " +
         std::to_string(sequence.rank.policy.level) + (sequence.late ? " late" : "") +
         (sequence.promoted ? " promoted" : "");
}

}  // namespace

StepScheduler::StepScheduler(const SchedulerConfig& config, std::unique_ptr<Policy> policy,
                             std::unique_ptr<Learnt> learnt)
    : config_(config),
      learnt_(learnt != nullptr ? std::move(learnt) : std::make_unique<Learnt>()),
      policy_(std::move(policy)),
      rules_(policy_->admission()),
      kv_(KvConfig{.blocks = config.kv_blocks,
                   .block_tokens = config.block_tokens,
                   .prefix_cache = config.prefix_cache,
                   .host_blocks = config.swap == SwapMode::kRecompute ? 0 : config.host_blocks,
                   .disk_blocks = config.swap == SwapMode::kRecompute ? 0 : config.disk_blocks}) {
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
  arrived_blocks_ += kv_.BlocksFor(sequence->prompt_tokens);
  Expect(sequence.get());
  sequence->late = IsLate(*sequence, sequence->arrival);
  Rerank(sequence.get(), sequence->arrival);
  EnterQueue(sequence.get(), sequence->arrival);
  sequences_.emplace(sequence->id, std::move(sequence));
  return Status::Ok();
}

// What its place depends on: how long its prompt takes beyond what is cached, and how long answers like it
// get.
void StepScheduler::Expect(Sequence* sequence) {
  std::int32_t cached = 0;
  if (kv_.prefix_cache() && learnt_->latency.fitted()) {
    kv_.Match(&sequence->table, std::span(sequence->tokens).first(sequence->tokens.size() - 1), &match_);
    cached = static_cast<std::int32_t>(match_.blocks.size()) * config_.block_tokens;
  }
  sequence->expected_prefill =
      FromSeconds(learnt_->latency.PrefillSeconds(sequence->prompt_tokens - cached, cached));
  sequence->length_class =
      learnt_->lengths.Classify(sequence->tenant, sequence->max_tokens, sequence->prompt_tokens);
  if (!config_.tenant_fairness) return;
  const double length =
      std::min<double>(sequence->max_tokens, learnt_->lengths.ExpectedLength(sequence->length_class, 0));
  sequence->expected_service = FairShare::Service(sequence->prompt_tokens, length);
  sequence->share_of = shares_.Enter(sequence->tenant, sequence->expected_service, &sequence->share);
}

void StepScheduler::Cancel(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  Sequence* sequence = found->second.get();
  const bool drains = in_flight_ && sequence->scheduled > 0;
  if (drains) draining_.push_back(std::move(found->second));
  if (sequence->phase() == SequencePhase::kWaiting || sequence->phase() == SequencePhase::kPreempted) {
    LeaveQueue(sequence);
  } else {
    EraseRunning(sequence);
  }
  Depart(sequence);
  if (!drains) GiveUpBlocks(sequence);
  Move(sequence, SequencePhase::kFinished);
  sequences_.erase(found);
}

void StepScheduler::Complete(const StepResult& result, TimePoint now) {
  if (!in_flight_ || result.step != last_step_) return;
  in_flight_ = false;
  now_ = now;
  for (const auto& sequence : draining_) GiveUpBlocks(sequence.get());
  draining_.clear();
  SettleCopies(result);
  if (result.failed) {
    repeat_ = true;
    return;
  }
  if (result.dropped) return Drop();
  const Duration elapsed = now - planned_at_;
  NoteArrivals(ToSeconds(elapsed));
  learnt_->latency.Observe(load_, elapsed);
  lost_seconds_ = std::max(lost_seconds_ - config_.max_lost_part * ToSeconds(elapsed), 0.0);
  AttachOutcomes(result);
  step_restoring_ = 0;
  bool out_of_order = false;
  std::size_t kept = 0;
  for (Sequence* sequence : running_) {
    if (sequence->scheduled > 0) {
      Serve(sequence, elapsed);
      if (!Advance(sequence)) {
        Finish(sequence);
        continue;
      }
      if (!sequence->late) sequence->late = IsLate(*sequence, now);
      out_of_order |= Rerank(sequence, now);
    }
    running_[kept++] = sequence;
  }
  running_.resize(kept);
  restoring_seconds_ += step_restoring_ * ToSeconds(elapsed);
  if (out_of_order) {
    std::ranges::sort(running_, {}, [](const Sequence* sequence) -> const Rank& { return sequence->rank; });
  }
}

// Everybody keeps seat and blocks; the blocks are there already when the same tokens are planned again.
void StepScheduler::Drop() {
  for (Sequence* sequence : running_) sequence->scheduled = 0;
}

void StepScheduler::AttachOutcomes(const StepResult& result) {
  for (const SliceOutcome& outcome : result.outcomes) {
    const auto found = sequences_.find(outcome.sequence);
    if (found == sequences_.end() || found->second->scheduled == 0 || found->second->outcome != nullptr)
      continue;
    found->second->outcome = &outcome;
  }
}

// Books the step's time. Computing again what was lost is not service: who lost it has paid already.
void StepScheduler::Serve(Sequence* sequence, Duration elapsed) {
  sequence->last_served = now_;
  const std::int32_t end = sequence->computed + sequence->scheduled;
  const std::int32_t fresh = end - std::max(sequence->most_computed, sequence->computed);
  if (fresh <= 0) return;
  sequence->attained += elapsed;
  if (sequence->promoted && sequence->attained >= sequence->promoted_until) EndPromotion(sequence);
  if (!sequence->share_of.has_value()) return;
  const std::int32_t prompt =
      std::clamp(sequence->prompt_tokens - std::max(sequence->most_computed, sequence->computed), 0, fresh);
  shares_.Charge(*sequence->share_of, FairShare::Service(prompt, sequence->samples() ? 1 : 0));
}

// Books what the completed step did for one sequence. False when that ended it.
bool StepScheduler::Advance(Sequence* sequence) {
  const SliceOutcome* outcome = std::exchange(sequence->outcome, nullptr);
  const bool samples = sequence->samples();
  std::int32_t computed = std::exchange(sequence->scheduled, 0);
  // Without its token a sample is lost, and the last position is computed once more.
  if (samples && outcome == nullptr) --computed;

  NoteRecomputed(sequence->computed, std::clamp(sequence->most_computed - sequence->computed, 0, computed));
  sequence->computed += computed;
  sequence->most_computed = std::max(sequence->most_computed, sequence->computed);
  if (outcome != nullptr && outcome->finished && outcome->tainted) {
    // As long as what it left in lower tiers can still be found.
    if (sequence->preemptions > 0) kv_.Forsake(&sequence->table, MatchableTokens(*sequence));
    kv_.Withdraw(sequence->table);
    return false;
  }
  kv_.Publish(&sequence->table, sequence->computed_tokens());
  if (outcome != nullptr && outcome->finished) {
    learnt_->lengths.Observe(sequence->length_class, sequence->generated() + (samples ? 1 : 0));
    return false;
  }
  if (!samples || outcome == nullptr) return true;

  sequence->tokens.push_back(outcome->token);
  if (sequence->generated() >= sequence->max_tokens) {
    learnt_->lengths.Observe(sequence->length_class, sequence->generated());
    return false;
  }
  if (sequence->phase() == SequencePhase::kPrefilling) Move(sequence, SequencePhase::kDecoding);
  return true;
}

// `tokens` from `position` on were computed before a preemption. What they took of the step goes by what is
// learnt.
void StepScheduler::NoteRecomputed(std::int32_t position, std::int32_t tokens) {
  if (tokens == 0) return;
  recomputed_tokens_ += static_cast<std::uint64_t>(tokens);
  const double step = learnt_->latency.StepSeconds(load_);
  const double part = step > 0 ? learnt_->latency.ChunkSeconds(tokens, position) / step
                               : tokens / (load_.decoders + load_.prompt_tokens);
  step_restoring_ = std::min(step_restoring_ + part, 1.0);
}

// It ends: its share and its place among the promoted are free.
void StepScheduler::Depart(Sequence* sequence) {
  CountLevel(*sequence, -1);
  EndPromotion(sequence);
  lost_seconds_ = std::max(lost_seconds_ - std::exchange(sequence->lost_seconds, 0), 0.0);
  if (!sequence->share_of.has_value()) return;
  if (!sequence->admitted_before) shares_.Start(*sequence->share_of, sequence->expected_service);
  shares_.Leave(*sequence->share_of);
  sequence->share_of.reset();
}

void StepScheduler::GiveUpBlocks(Sequence* sequence) {
  // First what it left behind, as long as that can still be found.
  if (sequence->preemptions > 0) kv_.Forsake(&sequence->table, MatchableTokens(*sequence));
  kv_.Release(&sequence->table);
}

void StepScheduler::Finish(Sequence* sequence) {
  Depart(sequence);
  GiveUpBlocks(sequence);
  Move(sequence, SequencePhase::kFinished);
  const SequenceId id = sequence->id;
  sequences_.erase(id);
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
                       .preemptions = sequence.preemptions,
                       .level = sequence.rank.policy.level,
                       .level_since = sequence.level_since};
}

std::optional<Rank> StepScheduler::FindRank(SequenceId id) const {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? std::nullopt : std::optional(found->second->rank);
}

SchedulerStats StepScheduler::Stats() const {
  std::array<std::int32_t, kLevelBands> running_by_level{};
  for (const Sequence* sequence : running_) ++running_by_level[sequence->band];
  return {.waiting = static_cast<std::int32_t>(waiting_.size()),
          .running = static_cast<std::int32_t>(running_.size()),
          .swapped = static_cast<std::int32_t>(swapped_.size()),
          .blocks_total = kv_.pool().total(),
          .blocks_used = kv_.pool().used(),
          .blocks_cached = kv_.pool().cached(),
          .blocks_free = kv_.pool().free(),
          .host_blocks_total = kv_.swap_space().host().total(),
          .host_blocks_free = kv_.swap_space().host().free(),
          .disk_blocks_total = kv_.swap_space().disk().total(),
          .disk_blocks_free = kv_.swap_space().disk().free(),
          .waiting_by_level = waiting_.by_level(),
          .running_by_level = running_by_level,
          .swap = kv_.swap_counts(),
          .preemptions = std::accumulate(preemptions_.begin(), preemptions_.end(), std::uint64_t{0}),
          .preemptions_by_cause = preemptions_,
          .promotions = promotions_,
          .demotions = demotions_,
          .recomputed_tokens = recomputed_tokens_,
          .restoring_seconds = restoring_seconds_,
          .prefix_queries_tokens = prefix_query_tokens_,
          .prefix_hit_tokens = prefix_hit_tokens_,
          .faults = illegal_moves_ + static_cast<std::uint64_t>(kv_.misuses())};
}

std::optional<Duration> StepScheduler::ExpectedTime() const {
  if (!in_flight_ || !learnt_->latency.fitted()) return std::nullopt;
  return FromSeconds(learnt_->latency.StepSeconds(load_));
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
