// How a plan is made; see step_scheduler.h for the passes.
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "sched/step_scheduler.h"

namespace skipjack {
namespace {

// A sequence whose next blocks are just being computed by another one waits for them when they are worth at
// least this part of a step's token budget: it loses one step at most, and nothing is computed twice.
constexpr std::int64_t kSharedBudgetDivisor = 8;

// Keeps the doubling of the reserve within 64 bits; by then it is the worst case anyway.
constexpr std::int32_t kMaxDoublings = 24;

constexpr std::int32_t kLeastChunk = 16;

constexpr std::int32_t kFewBlocks = 2;

// Of the time of copies that are made ahead of need, what others are taken to notice.
constexpr double kNotHidden = 0.1;

// The time over which work lost may exceed its part: a burst of arrivals may preempt everybody once.
constexpr double kLostAllowance = 30;

}  // namespace

void StepScheduler::Demand::Add(const Sequence& sequence) {
  growth_blocks += sequence.growth();
  growing_sequences += sequence.growth() > 0 ? 1 : 0;
}

void StepScheduler::Demand::Remove(const Sequence& sequence) {
  growth_blocks -= sequence.growth();
  growing_sequences -= sequence.growth() > 0 ? 1 : 0;
}

void StepScheduler::Plan(TimePoint now, StepPlan* plan) {
  plan->Clear();
  if (in_flight_) return;
  now_ = now;
  planned_at_ = now;
  plan->preempted.swap(lost_);
  lost_.clear();
  if (repeat_ && HasScheduled()) {
    EmitSlices(plan);
  } else {
    Choose(now, plan);
  }
  repeat_ = false;
  if (plan->slices.empty() && !kv_.has_copies()) return;
  plan->step = ++last_step_;
  in_flight_ = true;
  kv_.TakeCopies(&plan->copies_before, &plan->copies_beside);
  CountCopies(*plan);
}

void StepScheduler::Choose(TimePoint now, StepPlan* plan) {
  room_wanted_ = 0;
  room_for_ = nullptr;
  spares_wanted_ = swaps_ahead() && !std::exchange(takes_wanted_, false);
  ReviewWaiting(now);
  GrowDecoders(plan);
  ScheduleChunks(plan);
  EmitSlices(plan);
  const bool makes_room = PlanSwaps(now);
  // Where nothing can be copied out for the first who waits, it takes the space as it is.
  takes_wanted_ = room_for_ != nullptr && !makes_room;
  if (!plan->slices.empty() || kv_.has_copies() || waiting_.empty()) return;
  spares_wanted_ = false;
  ScheduleChunks(plan);
  EmitSlices(plan);
}

bool StepScheduler::HasScheduled() const {
  return std::ranges::any_of(running_, [](const Sequence* sequence) { return sequence->scheduled > 0; });
}

void StepScheduler::GrowDecoders(StepPlan* plan) {
  for (std::size_t i = 0; i < running_.size();) {
    Sequence* sequence = running_[i];
    if (sequence->phase() != SequencePhase::kDecoding) {
      ++i;
    } else if (kv_.Reserve(&sequence->table, sequence->size())) {
      sequence->scheduled = 1;
      ++i;
    } else {
      Preempt(running_.back(), sequence, PreemptionCause::kGrowth,
              plan);  // perhaps the sequence itself, which ends the loop
    }
  }
}

void StepScheduler::StartBudget() {
  budget_ = config_.max_batch_tokens;
  budget_seconds_.reset();
  first_chunk_ = true;
  demand_ = {};
  StepLoad decoding;
  for (const Sequence* sequence : running_) {
    budget_ -= sequence->scheduled;
    demand_.Add(*sequence);
    decoding.decoders += sequence->scheduled;
    decoding.context += sequence->scheduled * sequence->size();
  }
  if (config_.token_gap_target <= Duration::zero() || decoding.decoders <= 0) return;
  if (!learnt_->latency.fitted()) return;
  budget_seconds_ = ToSeconds(config_.token_gap_target) - learnt_->latency.StepSeconds(decoding);
}

// How much of its prompt goes into this step; 0: it must wait.
std::int32_t StepScheduler::ChunkFor(const Sequence& sequence) const {
  const std::int32_t most = std::min(budget_, sequence.remaining());
  if (rules_.whole_prompts) return most == sequence.remaining() || first_chunk_ ? most : 0;
  if (!budget_seconds_.has_value()) return most;
  const std::int32_t fits = learnt_->latency.ChunkWithin(*budget_seconds_, sequence.computed, most);
  // Prompts advance even where decoders alone take longer than the gap that is wanted.
  return first_chunk_ ? std::max(fits, std::min(most, kLeastChunk)) : fits;
}

void StepScheduler::ScheduleChunks(StepPlan* plan) {
  StartBudget();
  bool admitting = !rules_.closed_batches || running_.empty();
  StartNotes(admitting);
  auto candidate = waiting_.begin();
  std::size_t next = 0;
  while (budget_ > 0) {
    while (next < running_.size() && !HasChunk(*running_[next])) ++next;
    const bool has_chunk = next < running_.size();
    const bool has_candidate = admitting && candidate != waiting_.end();
    if (has_candidate && (!has_chunk || (*candidate)->rank < running_[next]->rank)) {
      switch (TryAdmit(*candidate, plan)) {
        case Admission::kBlocked:
          admitting = false;
          break;
        case Admission::kDeferred:
          ++candidate;
          break;
        case Admission::kAdmitted: {
          Sequence* admitted = *candidate;
          candidate = waiting_.Erase(candidate);
          LeaveReviews(admitted);
          admitted->resident = 0;
          admitted->swapped = 0;
          next = InsertRunning(admitted);
          break;
        }
      }
    } else if (has_chunk) {
      Sequence* sequence = running_[next++];
      sequence->scheduled = ChunkFor(*sequence);
      if (sequence->scheduled == 0) return;
      budget_ -= sequence->scheduled;
      first_chunk_ = false;
      if (budget_seconds_.has_value())
        *budget_seconds_ -= learnt_->latency.ChunkSeconds(sequence->scheduled, sequence->computed);
    } else {
      return;
    }
  }
}

bool StepScheduler::HasChunk(const Sequence& sequence) {
  return sequence.phase() == SequencePhase::kPrefilling && !sequence.loading;
}

StepScheduler::Admission StepScheduler::TryAdmit(Sequence* candidate, StepPlan* plan) {
  // Nobody comes back in the step that pushed it out.
  if (candidate->preempted_in == last_step_ + 1) return Block(candidate, WaitReason::kGaveWay);
  const bool has_seat = FreeSeats() > 0;
  if (!has_seat && (running_.empty() || !MayPreempt(*candidate, *running_.back())))
    return Block(candidate, WaitReason::kSeat);
  kv_.Match(&candidate->table, MatchableTokens(*candidate), &match_);
  TrimMatch();
  const std::int64_t available = kv_.available() - demand_.set_aside_blocks;
  const std::int64_t wanted = BlocksWanted(*candidate, demand_);
  if (has_seat && wanted <= available) {
    if (const Sequence* leader = WorthWaitingFor(*candidate)) {
      Note(candidate, {.reason = WaitReason::kSharedPrefix, .other = leader->id});
      // Its place is kept, so that those behind it may go on without harm to it.
      demand_.set_aside_blocks += static_cast<std::int32_t>(wanted);
      ++demand_.set_aside_seats;
      return Admission::kDeferred;
    }
    if (!FitsFuture(*candidate)) return Block(candidate, WaitReason::kFuture, wanted, available);
    return AdmitOrMakeRoom(candidate, WaitReason::kBlocks);
  }
  const std::int32_t victims = CountVictims(*candidate, available);
  const WaitReason missing = wanted <= available ? WaitReason::kSeat : WaitReason::kBlocks;
  if (victims == 0) return Block(candidate, missing, wanted, available);
  for (std::int32_t i = 0; i < victims; ++i)
    Preempt(running_.back(), candidate, CauseOf(*candidate, *running_.back()), plan);
  return AdmitOrMakeRoom(candidate, missing);
}

// There is room, but perhaps others wait for what lies there.
StepScheduler::Admission StepScheduler::AdmitOrMakeRoom(Sequence* candidate, WaitReason otherwise) {
  const bool others_have_blocks = resident_.size() > (candidate->resident > 0 ? 1U : 0U);
  if (spares_wanted_ && others_have_blocks && kv_.swap_space().HasRoom()) {
    // Its own blocks are taken over by it.
    const std::int64_t wanted = BlocksWanted(*candidate, demand_) - match_.wanted;
    if (wanted > kv_.ready()) {
      room_wanted_ = wanted;
      room_for_ = candidate;
      return Block(candidate, WaitReason::kCopies, wanted, kv_.ready());
    }
  }
  if (Admit(candidate)) return Admission::kAdmitted;
  return Block(candidate, otherwise, BlocksWanted(*candidate, demand_), kv_.available());
}

std::int32_t StepScheduler::FreeSeats() const {
  return config_.max_sequences - static_cast<std::int32_t>(running_.size()) - demand_.set_aside_seats;
}

bool StepScheduler::Admit(Sequence* candidate) {
  candidate->tokens.reserve(static_cast<std::size_t>(candidate->prompt_tokens + candidate->max_tokens));
  candidate->table.ReserveCapacity(candidate->max_blocks);
  // A few blocks are not worth a step's delay.
  const bool before = !swaps_ahead() || match_.swapped <= kFewBlocks;
  const Admitted admitted =
      kv_.Admit(&candidate->table, match_, candidate->size(), before ? CopyTime::kBefore : CopyTime::kBeside);
  if (admitted == Admitted::kNo) return false;
  candidate->loading = admitted == Admitted::kLoading;
  candidate->computed = static_cast<std::int32_t>(match_.blocks.size()) * config_.block_tokens;
  if (!candidate->admitted_before && kv_.prefix_cache()) {
    candidate->cached_tokens = candidate->computed;
    prefix_query_tokens_ += static_cast<std::uint64_t>(candidate->prompt_tokens);
    prefix_hit_tokens_ += static_cast<std::uint64_t>(candidate->cached_tokens);
  }
  // What had stayed in the device was not lost.
  if (const double booked = std::exchange(candidate->lost_seconds, 0); booked > 0) {
    const std::int32_t lost = std::max(candidate->most_computed - candidate->computed, 0);
    const double cost = learnt_->latency.ChunkSeconds(lost, 0) + CopySeconds(match_.swapped);
    lost_seconds_ = std::max(lost_seconds_ + std::min(cost, booked) - booked, 0.0);
  }
  if (!std::exchange(candidate->admitted_before, true) && candidate->share_of.has_value()) {
    shares_.Start(*candidate->share_of, candidate->expected_service);
  }
  Move(candidate, SequencePhase::kPrefilling);
  demand_.Add(*candidate);
  return true;
}

// Blocks that must be available for the candidate to be admitted with the prefix in match_: its own new ones,
// the cached ones it takes over, and a reserve for the growth of all who run.
std::int64_t StepScheduler::BlocksWanted(const Sequence& candidate, const Demand& demand) const {
  const std::int32_t blocks = kv_.BlocksFor(candidate.size());
  const std::int32_t growth = candidate.max_blocks - blocks;
  const std::int64_t growing = demand.growing_sequences + (growth > 0 ? 1 : 0);
  const std::int64_t worst = demand.growth_blocks + growth;
  const std::int64_t reserve = rules_.reserves_max_tokens
                                   ? worst
                                   : std::min(worst, growing << std::min(candidate.evictions, kMaxDoublings));
  return blocks - static_cast<std::int64_t>(match_.blocks.size()) + match_.swapped + match_.unreferenced +
         reserve;
}

// How many of the last in order must go to let the candidate in; 0 when that is not possible or not allowed.
std::int32_t StepScheduler::CountVictims(const Sequence& candidate, std::int64_t available) {
  preview_.Start(match_);
  Demand demand = demand_;
  std::int32_t count = 0;
  for (auto at = running_.rbegin(); at != running_.rend(); ++at) {
    const Sequence& victim = **at;
    if (!MayPreempt(candidate, victim)) return 0;
    ++count;
    demand.Remove(victim);
    const std::int64_t freed = preview_.Add(victim.table);
    if (FreeSeats() + count > 0 && BlocksWanted(candidate, demand) <= available + freed) return count;
  }
  return 0;
}

bool StepScheduler::MayPreempt(const Sequence& candidate, const Sequence& victim) {
  if (victim.rank < candidate.rank) return false;
  if (candidate.priority != victim.priority || candidate.late != victim.late) return true;
  if (!policy_->MayPreempt(candidate.Snapshot(now_), victim.Snapshot(now_))) return false;
  paused_ = lost_seconds_ > kLostAllowance * config_.max_lost_part && config_.max_lost_part < 1;
  return !paused_;
}

// Whose prompt chunk, in the plan being made, computes blocks that the candidate would otherwise compute
// itself; nullptr: nobody's. As the chunk is part of this very plan, there is nothing to wait for once its
// sequence is cancelled or preempted.
const Sequence* StepScheduler::WorthWaitingFor(const Sequence& candidate) const {
  if (!kv_.prefix_cache()) return nullptr;
  const std::span<const ChainHash> wanted = candidate.table.hashes();
  const std::size_t matched = match_.blocks.size();
  for (const Sequence* leader : running_) {
    if (leader->phase() != SequencePhase::kPrefilling || leader->scheduled == 0) continue;
    // What the leader computed before is matched already or withdrawn, and then so is what follows.
    if (static_cast<std::size_t>(leader->computed / config_.block_tokens) > matched) continue;
    const std::span<const ChainHash> computing = leader->table.hashes();
    const auto end = static_cast<std::size_t>((leader->computed + leader->scheduled) / config_.block_tokens);
    const std::size_t limit = std::min({end, computing.size(), wanted.size()});
    std::size_t shared = matched;
    while (shared < limit && computing[shared] == wanted[shared]) ++shared;
    const auto tokens = static_cast<std::int64_t>(shared - matched) * config_.block_tokens;
    if (tokens > 0 && tokens * kSharedBudgetDivisor >= config_.max_batch_tokens) return leader;
  }
  return nullptr;
}

// What bringing so many tokens back takes off everybody's time, if they do not stay in the device.
double StepScheduler::SecondsToRestore(std::int32_t tokens) const {
  const double computing = learnt_->latency.ChunkSeconds(tokens, 0);
  if (!kv_.swaps() || !kv_.swap_space().HasRoom()) return computing;
  return std::min(computing, CopySeconds(kv_.BlocksFor(tokens)));
}

// The same of copying so many blocks out and in again.
double StepScheduler::CopySeconds(std::int32_t blocks) const {
  const double copying = 2 * blocks * learnt_->latency.copy_seconds(Tier::kHost);
  return swaps_ahead() ? copying * kNotHidden : copying;
}

void StepScheduler::Preempt(Sequence* victim, const Sequence* by, PreemptionCause cause, StepPlan* plan) {
  if (cause != PreemptionCause::kGrowth) {
    victim->lost_seconds = SecondsToRestore(victim->computed);
    lost_seconds_ += victim->lost_seconds;
  }
  plan->preempted.push_back({victim->id, victim->computed, cause, by != victim ? by->id : 0});
  NotePreemption(victim, *by, cause);
  demand_.Remove(*victim);
  budget_ += victim->scheduled;
  victim->preempted_in = last_step_ + 1;
  if (cause == PreemptionCause::kGrowth) ++victim->evictions;
  LeaveRunning(victim);
}

// It loses its seat and its hold on its blocks, and waits.
void StepScheduler::LeaveRunning(Sequence* sequence) {
  const std::int32_t blocks = sequence->table.size();
  kv_.Release(&sequence->table, /*wanted=*/true);
  sequence->computed = 0;
  sequence->scheduled = 0;
  sequence->loading = false;
  ++sequence->preemptions;
  Move(sequence, SequencePhase::kPreempted);
  EraseRunning(sequence);
  EnterQueue(sequence, now_);
  if (swaps_ahead()) SetPlaces(sequence, blocks, 0);
}

void StepScheduler::EmitSlices(StepPlan* plan) {
  load_ = {};
  if (!HasScheduled()) return;
  std::size_t most_blocks = 0;
  for (const Sequence* sequence : running_) most_blocks += static_cast<std::size_t>(sequence->max_blocks);
  plan->slices.reserve(static_cast<std::size_t>(config_.max_sequences));
  plan->tokens.reserve(static_cast<std::size_t>(config_.max_batch_tokens));
  plan->block_tables.reserve(most_blocks);
  for (const SequencePhase phase : {SequencePhase::kDecoding, SequencePhase::kPrefilling}) {
    for (const Sequence* sequence : running_) {
      if (sequence->phase() == phase && sequence->scheduled > 0) EmitSlice(*sequence, plan);
    }
  }
  for (const Slice& slice : plan->slices) {
    const double tokens = slice.token_count;
    if (slice.token_count == 1) {
      load_.decoders += 1;
      load_.context += slice.position + 1;
    } else {
      load_.prompt_tokens += tokens;
      load_.prompt_pairs += tokens * slice.position + tokens * (tokens + 1) / 2;
    }
  }
}

void StepScheduler::EmitSlice(const Sequence& sequence, StepPlan* plan) const {
  const std::int32_t table_count = kv_.BlocksFor(sequence.computed + sequence.scheduled);
  plan->slices.push_back({.sequence = sequence.id,
                          .position = sequence.computed,
                          .token_offset = static_cast<std::int32_t>(plan->tokens.size()),
                          .token_count = sequence.scheduled,
                          .table_offset = static_cast<std::int32_t>(plan->block_tables.size()),
                          .table_count = table_count,
                          .sample = sequence.samples()});
  const auto tokens =
      std::span(sequence.tokens)
          .subspan(static_cast<std::size_t>(sequence.computed), static_cast<std::size_t>(sequence.scheduled));
  plan->tokens.insert(plan->tokens.end(), tokens.begin(), tokens.end());
  const auto blocks = sequence.table.blocks().first(static_cast<std::size_t>(table_count));
  plan->block_tables.insert(plan->block_tables.end(), blocks.begin(), blocks.end());
}

std::size_t StepScheduler::InsertRunning(Sequence* sequence) {
  const auto at = std::ranges::lower_bound(running_, sequence->rank, {},
                                           [](const Sequence* other) -> const Rank& { return other->rank; });
  return static_cast<std::size_t>(running_.insert(at, sequence) - running_.begin());
}

void StepScheduler::EraseRunning(const Sequence* sequence) {
  running_.erase(std::ranges::find(running_, sequence));
}

}  // namespace skipjack
