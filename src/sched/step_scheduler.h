// The scheduler behind Scheduler::Create: iteration-level, paged, with chunked prefill and prefix sharing.
//
// A plan is made in five passes:
//   0. review: who has waited too long is promoted, who can no longer meet its deadline steps back
//   1. growth: every decoder gets the block its next token needs; when none is left, the last in order goes
//   2. chunks: the rest of the token budget goes, in order, to prompts under way and to waiting sequences
//   3. emission: decoders, then prompt chunks, each in order
//   4. swapping: what is copied between the tiers while the step computes (step_scheduler_swap.cc)
// The first three only decide, and note their choices in Sequence::scheduled; a failed step is repeated by
// emitting them again.
//
// Why nobody starves: the first in order is never preempted, and its worst case was checked against the whole
// pool at Submit, so it can push everybody else aside and finish. Then the next one is first.
// Why nothing thrashes: a sequence is admitted only when all of its tokens fit at once, together with one
// more block for each running sequence that still grows; each time it lost its KV to the growth of others
// doubles that reserve. Who was pushed out by one that goes first comes back for free as far as its blocks
// survive in the prefix cache. What does not survive is work lost: preemptions within a class stop while more
// of it was caused than a part of the time that has passed (SchedulerConfig::max_lost_part).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/kv_manager.h"
#include "sched/fair_share.h"
#include "sched/policy.h"
#include "sched/review_queue.h"
#include "sched/scheduler.h"
#include "sched/sequence.h"
#include "sched/waiting_queue.h"

namespace skipjack {

class StepScheduler final : public Scheduler {
 public:
  // The configuration has been checked (see Scheduler::Create). `learnt` is what the policy reads, if it
  // does.
  StepScheduler(const SchedulerConfig& config, std::unique_ptr<Policy> policy,
                std::unique_ptr<Learnt> learnt = nullptr);

  Status Submit(SubmitRequest request) override;
  void Cancel(SequenceId sequence) override;
  void Plan(TimePoint now, StepPlan* plan) override;
  void Complete(const StepResult& result, TimePoint now) override;
  std::optional<SequenceState> Find(SequenceId sequence) const override;
  std::optional<SequenceExplanation> Explain(SequenceId sequence, TimePoint now) const override;
  std::optional<SequenceId> FirstWaiting() const override;
  SchedulerStats Stats() const override;
  LatencyCoefficients Latency() const override { return learnt_->latency.coefficients(); }
  std::optional<Duration> ExpectedTime() const override;
  bool admits_between_steps() const override { return !rules_.closed_batches; }
  std::string DebugString() const override;

  // A sequence's place in the order.
  std::optional<Rank> FindRank(SequenceId sequence) const;

  // Walks everything; for tests and soak runs. Never called by a step.
  Status CheckInvariants() const;
  // Comparisons made and sequences passed over in the waiting queue: its cost without a clock.
  std::uint64_t queue_work() const { return waiting_.work(); }
  // Sequences that go first now for having waited.
  std::int32_t promoted() const { return promoted_; }
  const KvManager& kv() const { return kv_; }
  const Learnt& learnt() const { return *learnt_; }

 private:
  enum class Admission : std::uint8_t { kAdmitted, kDeferred, kBlocked };

  // What running sequences may still come to need, and what is set aside for a deferred one.
  struct Demand {
    std::int64_t growth_blocks = 0;      // worst case of all running sequences
    std::int32_t growing_sequences = 0;  // those that may need one more block
    std::int32_t set_aside_blocks = 0;
    std::int32_t set_aside_seats = 0;

    void Add(const Sequence& sequence);
    void Remove(const Sequence& sequence);
  };

  struct ByRank {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->rank < b->rank; }
  };
  using RankedSet = std::set<Sequence*, ByRank>;

  // step_scheduler_queue.cc
  void EnterQueue(Sequence* sequence, TimePoint now);
  void LeaveQueue(Sequence* sequence);
  void LeaveReviews(Sequence* sequence);
  void ReviewWaiting(TimePoint now);
  bool ReviewStarving(Sequence* sequence, TimePoint now);
  bool HasRoomToPromote(const Sequence& sequence) const;
  // `service`: what it gets before that ends; none: until the sequence ends.
  void Promote(Sequence* sequence, std::optional<Duration> service);
  void EndPromotion(Sequence* sequence);
  bool IsLate(const Sequence& sequence, TimePoint now) const;
  std::optional<TimePoint> LateAt(const Sequence& sequence) const;
  Rank RankOf(const Sequence& sequence, TimePoint now) const;
  bool Rerank(Sequence* sequence, TimePoint now);

  // step_scheduler_plan.cc
  void Choose(TimePoint now, StepPlan* plan);
  bool HasScheduled() const;
  static bool HasChunk(const Sequence& sequence);
  void GrowDecoders(StepPlan* plan);
  void ScheduleChunks(StepPlan* plan);
  void StartBudget();
  std::int32_t ChunkFor(const Sequence& sequence) const;
  Admission TryAdmit(Sequence* candidate, StepPlan* plan);
  bool FitsFuture(const Sequence& candidate) const;
  double OwnBlocks(std::int32_t tokens) const;
  double ExpectedBlocks(const Sequence& sequence, double own, std::int32_t ahead) const;
  Admission AdmitOrMakeRoom(Sequence* candidate, WaitReason otherwise);
  bool Admit(Sequence* candidate);
  std::int64_t BlocksWanted(const Sequence& candidate, const Demand& demand) const;
  std::int32_t FreeSeats() const;
  std::int32_t CountVictims(const Sequence& candidate, std::int64_t available);
  bool MayPreempt(const Sequence& candidate, const Sequence& victim);
  double SecondsToRestore(std::int32_t tokens) const;
  double CopySeconds(std::int32_t blocks) const;
  const Sequence* WorthWaitingFor(const Sequence& candidate) const;
  void Preempt(Sequence* victim, const Sequence* by, PreemptionCause cause, StepPlan* plan);
  void LeaveRunning(Sequence* sequence);
  void EmitSlices(StepPlan* plan);
  void EmitSlice(const Sequence& sequence, StepPlan* plan) const;
  std::size_t InsertRunning(Sequence* sequence);
  void EraseRunning(const Sequence* sequence);

  // step_scheduler_explain.cc
  void StartNotes(bool admitting);
  void Note(Sequence* candidate, const WaitNote& note);
  Admission Block(Sequence* candidate, WaitReason reason, std::int64_t wanted = 0,
                  std::int64_t available = 0);
  static PreemptionCause CauseOf(const Sequence& candidate, const Sequence& victim);
  void NotePreemption(Sequence* victim, const Sequence& by, PreemptionCause cause);
  std::optional<WaitNote> WaitOf(const Sequence& sequence) const;
  // step_scheduler_swap.cc
  bool swaps_ahead() const { return kv_.swaps() && config_.swap == SwapMode::kProactive; }
  double SecondsUntilServed(const Sequence& sequence, TimePoint now) const;
  void CountLevel(const Sequence& sequence, std::int32_t change);
  void NoteArrivals(double elapsed_seconds);
  std::int32_t IdleBlocks() const;
  std::int32_t CopyBudget() const;
  bool PlanSwaps(TimePoint now);
  std::int32_t SwapOutLast(std::int32_t limit, TimePoint now);
  std::int32_t SwapInFirst(std::int32_t limit, TimePoint now);
  void SetPlaces(Sequence* sequence, std::int32_t resident, std::int32_t swapped);
  bool IsQuickerComputed(Tier tier, std::int32_t position) const;
  void TrimMatch();
  void SettleCopies(const StepResult& result);
  void CountCopies(const StepPlan& plan);
  // The last token is always computed: its logits are what the next one is sampled from.
  static std::span<const TokenId> MatchableTokens(const Sequence& sequence) {
    return std::span(sequence.tokens).first(sequence.tokens.size() - 1);
  }

  // step_scheduler.cc
  Status CheckSubmit(const SubmitRequest& request) const;
  void Drop();
  void AttachOutcomes(const StepResult& result);
  void Expect(Sequence* sequence);
  void Serve(Sequence* sequence, Duration elapsed);
  void NoteRecomputed(std::int32_t position, std::int32_t tokens);
  bool Advance(Sequence* sequence);
  void Finish(Sequence* sequence);
  void Depart(Sequence* sequence);
  void GiveUpBlocks(Sequence* sequence);
  void Move(Sequence* sequence, SequencePhase next);

  const SchedulerConfig config_;
  const std::unique_ptr<Learnt> learnt_;
  const std::unique_ptr<Policy> policy_;
  const AdmissionRules rules_;
  KvManager kv_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  WaitingQueue waiting_;  // kWaiting, kPreempted
  ReviewQueue starving_;  // of these: by promote_at
  ReviewQueue expiring_;  // and by late_at
  std::int32_t promoted_ = 0;
  std::int32_t promoted_blocks_ = 0;  // that those needed when they were promoted
  double lost_seconds_ = 0;           // predicted work lost to preemptions by order that is not paid off yet
  FairShare shares_;
  RankedSet resident_;                                 // of those who wait: who has blocks in the device
  RankedSet swapped_;                                  // and who in lower tiers
  std::map<std::int64_t, std::int32_t> level_counts_;  // sequences by the policy's level; where swaps_ahead()
  std::vector<Preemption> lost_;    // whose copies failed, to be reported with the next plan
  std::vector<Sequence*> running_;  // kPrefilling, kDecoding; in order
  // Cancelled while the plan in flight still writes their blocks.
  std::vector<std::unique_ptr<Sequence>> draining_;

  std::uint64_t next_ticket_ = 0;
  std::uint64_t last_step_ = 0;
  bool in_flight_ = false;  // the plan of last_step_
  bool repeat_ = false;     // the last step failed: the next plan is the same again
  TimePoint planned_at_{};  // the plan in flight
  TimePoint now_{};         // of the call under way
  StepLoad load_;
  std::int32_t host_copies_ = 0;  // of the plan in flight
  std::int32_t disk_copies_ = 0;
  std::int64_t arrived_blocks_ = 0;  // of prompts, since the last step ended
  double arriving_blocks_ = 0;       // per second, averaged

  // Buffers and counts of the plan being made.
  PrefixMatch match_;
  ReleasePreview preview_{kv_};
  Demand demand_;
  std::int32_t budget_ = 0;
  std::optional<double> budget_seconds_;  // for chunks, where a gap between tokens is to be kept
  bool first_chunk_ = true;
  // Who is admitted takes only blocks that nobody waits for; others are first copied out beside the steps.
  bool spares_wanted_ = false;
  bool takes_wanted_ = false;           // not so in the next plan
  std::int64_t room_wanted_ = 0;        // blocks for the first who waits, to be made ready for it
  const Sequence* room_for_ = nullptr;  // that one
  std::vector<std::pair<double, Sequence*>> swap_order_;

  // Why those who were not let in were not, see step_scheduler_explain.cc.
  std::uint64_t notes_in_ = 0;       // the last plan that let anybody in or not; they are counted
  std::uint64_t noted_tickets_ = 0;  // sequences that came before it
  std::uint64_t noted_step_ = 0;     // the step that it made
  WaitNote rest_;                    // of those that it did not get to
  bool paused_ = false;              // the last preemption asked for must not be, for the work it would lose

  std::array<std::uint64_t, kPreemptionCauses> preemptions_{};
  std::uint64_t promotions_ = 0;
  std::uint64_t demotions_ = 0;
  std::uint64_t recomputed_tokens_ = 0;
  double restoring_seconds_ = 0;  // of the steps' time
  double step_restoring_ = 0;     // part of the step under way
  std::uint64_t prefix_query_tokens_ = 0;
  std::uint64_t prefix_hit_tokens_ = 0;
  std::uint64_t illegal_moves_ = 0;  // reported by CheckInvariants; always 0
};

}  // namespace skipjack
