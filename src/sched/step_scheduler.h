// The scheduler behind Scheduler::Create: iteration-level, paged, with chunked prefill and prefix sharing.
//
// A plan is made in three passes:
//   1. growth: every decoder gets the block its next token needs; when none is left, the last in order goes
//   2. chunks: the rest of the token budget goes, in order, to prompts under way and to waiting sequences
//   3. emission: decoders, then prompt chunks, each in order
// The first two only decide, and note their choices in Sequence::scheduled; a failed step is repeated by
// emitting them again.
//
// Why nobody starves: the first in order is never preempted, and its worst case was checked against the whole
// pool at Submit, so it can push everybody else aside and finish. Then the next one is first.
// Why nothing thrashes: a sequence is admitted only when all of its tokens fit at once, together with one
// more block for each running sequence that still grows; each preemption it has suffered doubles that
// reserve.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "kv/kv_manager.h"
#include "sched/policy.h"
#include "sched/scheduler.h"
#include "sched/sequence.h"
#include "sched/waiting_queue.h"

namespace skipjack {

class StepScheduler final : public Scheduler {
 public:
  // The configuration has been checked (see Scheduler::Create).
  StepScheduler(const SchedulerConfig& config, std::unique_ptr<Policy> policy);

  Status Submit(SubmitRequest request) override;
  void Cancel(SequenceId sequence) override;
  void Plan(TimePoint now, StepPlan* plan) override;
  void Complete(const StepResult& result, TimePoint now) override;
  std::optional<SequenceState> Find(SequenceId sequence) const override;
  SchedulerStats Stats() const override;
  std::string DebugString() const override;

  // Walks everything; for tests and soak runs. Never called by a step.
  Status CheckInvariants() const;
  // Comparisons made and sequences passed over in the waiting queue: its cost without a clock.
  std::uint64_t queue_work() const { return waiting_.work(); }
  const KvManager& kv() const { return kv_; }

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

  // step_scheduler_plan.cc
  bool HasScheduled() const;
  void GrowDecoders(StepPlan* plan);
  void ScheduleChunks(StepPlan* plan);
  Admission TryAdmit(Sequence* candidate, StepPlan* plan);
  bool Admit(Sequence* candidate);
  std::int64_t BlocksWanted(const Sequence& candidate, const Demand& demand) const;
  std::int32_t FreeSeats() const;
  std::int32_t CountVictims(const Sequence& candidate, std::int64_t available);
  bool MayPreempt(const Sequence& candidate, const Sequence& victim) const;
  bool IsWorthWaiting(const Sequence& candidate) const;
  void Preempt(Sequence* victim, StepPlan* plan);
  void Emit(StepPlan* plan);
  void EmitSlice(const Sequence& sequence, StepPlan* plan) const;
  std::size_t InsertRunning(Sequence* sequence);
  void EraseRunning(const Sequence* sequence);

  // step_scheduler.cc
  Status CheckSubmit(const SubmitRequest& request) const;
  void AttachOutcomes(const StepResult& result);
  bool Advance(Sequence* sequence);
  void Finish(Sequence* sequence);
  bool Rerank(Sequence* sequence);
  Rank RankOf(const Sequence& sequence) const;
  void Move(Sequence* sequence, SequencePhase next);

  const SchedulerConfig config_;
  const std::unique_ptr<Policy> policy_;
  KvManager kv_;
  std::unordered_map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  WaitingQueue waiting_;            // kWaiting, kPreempted
  std::vector<Sequence*> running_;  // kPrefilling, kDecoding; in order
  // Cancelled while the plan in flight still writes their blocks.
  std::vector<std::unique_ptr<Sequence>> draining_;

  std::uint64_t next_ticket_ = 0;
  std::uint64_t last_step_ = 0;
  bool in_flight_ = false;  // the plan of last_step_
  bool repeat_ = false;     // the last step failed: the next plan is the same again

  // Buffers and counts of the plan being made.
  PrefixMatch match_;
  ReleasePreview preview_{kv_};
  Demand demand_;
  std::int32_t budget_ = 0;

  std::uint64_t preemptions_ = 0;
  std::uint64_t recomputed_tokens_ = 0;
  std::uint64_t prefix_query_tokens_ = 0;
  std::uint64_t prefix_hit_tokens_ = 0;
  std::uint64_t illegal_moves_ = 0;  // reported by CheckInvariants; always 0
};

}  // namespace skipjack
