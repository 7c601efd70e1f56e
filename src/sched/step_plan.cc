#include "sched/step_plan.h"

#include <cstddef>
#include <utility>

namespace skipjack {
namespace {

// The finaliser of SplitMix64 over a running state: every word reaches every bit.
class Hasher {
 public:
  void Add(std::uint64_t word) {
    std::uint64_t z = (state_ ^ word) + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    state_ = z ^ (z >> 31);
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0;
};

}  // namespace

std::string_view PreemptionCauseName(PreemptionCause cause) {
  switch (cause) {
    case PreemptionCause::kPriority:
      return "priority";
    case PreemptionCause::kDeadline:
      return "deadline";
    case PreemptionCause::kPolicy:
      return "policy";
    case PreemptionCause::kGrowth:
      return "growth";
    case PreemptionCause::kLostKv:
      return "lost_kv";
  }
  return "unknown";
}

void StepPlan::Clear() {
  step = 0;
  slices.clear();
  tokens.clear();
  block_tables.clear();
  preempted.clear();
  copies_before.clear();
  copies_beside.clear();
}

std::uint64_t StepPlan::Hash() const {
  Hasher hasher;
  hasher.Add(step);
  hasher.Add(slices.size());
  for (const Slice& slice : slices) {
    hasher.Add(slice.sequence);
    hasher.Add(static_cast<std::uint64_t>(slice.position));
    hasher.Add(static_cast<std::uint64_t>(slice.token_offset));
    hasher.Add(static_cast<std::uint64_t>(slice.token_count));
    hasher.Add(static_cast<std::uint64_t>(slice.table_offset));
    hasher.Add(static_cast<std::uint64_t>(slice.table_count));
    hasher.Add(slice.sample ? 1 : 0);
  }
  hasher.Add(tokens.size());
  for (const TokenId token : tokens) hasher.Add(static_cast<std::uint64_t>(token));
  hasher.Add(block_tables.size());
  for (const BlockId block : block_tables) hasher.Add(static_cast<std::uint64_t>(block));
  hasher.Add(preempted.size());
  for (const Preemption& preemption : preempted) {
    hasher.Add(preemption.sequence);
    hasher.Add(static_cast<std::uint64_t>(preemption.tokens_lost));
    hasher.Add(static_cast<std::uint64_t>(preemption.cause));
    hasher.Add(preemption.by);
  }
  for (const auto* copies : {&copies_before, &copies_beside}) {
    hasher.Add(copies->size());
    for (const BlockCopy& copy : *copies) {
      hasher.Add(static_cast<std::uint64_t>(copy.from));
      hasher.Add(static_cast<std::uint64_t>(copy.to));
    }
  }
  return hasher.value();
}

std::string StepPlan::ToString() const {
  std::string out = "step " + std::to_string(step) + ": " + std::to_string(slices.size()) + " slices, " +
                    std::to_string(tokens.size()) + " tokens\n";
  for (const Slice& slice : slices) {
    out += "  sequence " + std::to_string(slice.sequence) + " [" + std::to_string(slice.position) + ", " +
           std::to_string(slice.position + slice.token_count) + ")" + (slice.sample ? " sample" : "") +
           " blocks";
    for (std::int32_t i = 0; i < slice.table_count; ++i) {
      out += ' ' + std::to_string(block_tables[static_cast<std::size_t>(slice.table_offset + i)]);
    }
    out += '\n';
  }
  for (const Preemption& preemption : preempted) {
    out += "  preempted " + std::to_string(preemption.sequence) + ", " +
           std::to_string(preemption.tokens_lost) + " tokens lost, " +
           std::string(PreemptionCauseName(preemption.cause));
    if (preemption.by != 0) out += " of " + std::to_string(preemption.by);
    out += '\n';
  }
  for (const auto& [when, copies] : {std::pair("before", &copies_before), {"beside", &copies_beside}}) {
    for (const BlockCopy& copy : *copies) {
      out += std::string("  copy ") + std::to_string(copy.from) + " to " + std::to_string(copy.to) + ' ' +
             when + '\n';
    }
  }
  return out;
}

}  // namespace skipjack
