#include "sched/sequence.h"

#include <utility>

namespace skipjack {
namespace {

bool IsAllowed(SequencePhase from, SequencePhase to) {
  switch (to) {
    case SequencePhase::kWaiting:
      return false;
    case SequencePhase::kPrefilling:
      return from == SequencePhase::kWaiting || from == SequencePhase::kPreempted;
    case SequencePhase::kDecoding:
      return from == SequencePhase::kPrefilling;
    case SequencePhase::kPreempted:
      return from == SequencePhase::kPrefilling || from == SequencePhase::kDecoding;
    case SequencePhase::kFinished:
      return from != SequencePhase::kFinished;
  }
  return false;
}

}  // namespace

std::string_view SequencePhaseName(SequencePhase phase) {
  switch (phase) {
    case SequencePhase::kWaiting:
      return "waiting";
    case SequencePhase::kPrefilling:
      return "prefilling";
    case SequencePhase::kDecoding:
      return "decoding";
    case SequencePhase::kPreempted:
      return "preempted";
    case SequencePhase::kFinished:
      return "finished";
  }
  return "unknown";
}

Sequence::Sequence(SubmitRequest request, std::uint64_t ticket_number, BlockTable blocks)
    : id(request.sequence),
      priority(request.priority),
      ticket(ticket_number),
      arrival(request.arrival),
      deadline(request.deadline),
      tenant(std::move(request.tenant)),
      prompt_tokens(static_cast<std::int32_t>(request.prompt.size())),
      max_tokens(request.max_tokens),
      tokens(std::move(request.prompt)),
      table(std::move(blocks)),
      last_served(request.arrival) {}

bool Sequence::MoveTo(SequencePhase next) {
  if (!IsAllowed(phase_, next)) return false;
  phase_ = next;
  return true;
}

SequenceSnapshot Sequence::Snapshot(TimePoint now) const {
  return {.sequence = id,
          .priority = priority,
          .tenant = tenant,
          .arrival = arrival,
          .deadline = deadline,
          .prompt_tokens = prompt_tokens,
          .max_tokens = max_tokens,
          .generated_tokens = generated(),
          .computed_tokens = computed,
          .cached_tokens = cached_tokens,
          .preemptions = preemptions,
          .promoted = promoted,
          .observed_at = now,
          .attained = attained,
          .expected_prefill = expected_prefill,
          .length_class = length_class,
          .key = ranked ? std::optional(rank.policy) : std::nullopt};
}

}  // namespace skipjack
