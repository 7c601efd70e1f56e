// Priority queues whose level comes from a Gittins index over the lengths of earlier answers of the same
// class (see LengthModel), a quarter of an octave of expected work each.
//
// Until enough answers have been seen it is skip-join MLFQ: the same levels (four of these to one of those),
// the same order, the same promotions. From then on:
//   - a running sequence is preempted only by one that is ahead by the hysteresis
//   - and not at all once it has generated most of what it is expected to generate in the end
//   - whoever was not served for the ageing bound goes first until it ends
#pragma once

#include "sched/mlfq_policy.h"

namespace skipjack {

class IndexPolicy final : public Policy {
 public:
  // `learnt` must outlive the policy.
  IndexPolicy(const PolicySettings& settings, const Learnt& learnt);

  std::string_view name() const override { return "index"; }
  PolicyKey KeyOf(const SequenceSnapshot& sequence) const override;
  bool MayPreempt(const SequenceSnapshot& waiting, const SequenceSnapshot& running) const override;
  std::optional<Promotion> PromotionOf(const SequenceSnapshot& sequence) const override;

  // Octaves; who was promoted for life counts to the first.
  std::int64_t BandOf(std::int64_t level) const override;
  // Who is ahead is expected to be served for about its rank, which is what its level says.
  Duration ServiceBetween(std::int64_t ahead, std::int64_t behind) const override;

  // The least expected work per completion, in seat-iterations: a sequence that takes more than a seat's part
  // of the KV pool is charged for the seats that stay empty for it.
  double RankOf(const SequenceSnapshot& sequence) const;

 private:
  double SeatsTaken(double context) const;

  const PolicySettings settings_;
  const Learnt& learnt_;
  const MlfqPolicy mlfq_;
  const std::int64_t margin_;  // levels
};

}  // namespace skipjack
