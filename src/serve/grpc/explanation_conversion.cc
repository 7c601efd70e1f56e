#include "serve/grpc/explanation_conversion.h"

#include "serve/grpc/request_conversion.h"
#include "serve/grpc/response_conversion.h"

namespace skipjack {
namespace {

v1::PreemptionCause ToProto(PreemptionCause cause) {
  switch (cause) {
    case PreemptionCause::kPriority:
      return v1::PREEMPTION_CAUSE_PRIORITY;
    case PreemptionCause::kDeadline:
      return v1::PREEMPTION_CAUSE_DEADLINE;
    case PreemptionCause::kPolicy:
      return v1::PREEMPTION_CAUSE_POLICY;
    case PreemptionCause::kGrowth:
      return v1::PREEMPTION_CAUSE_GROWTH;
    case PreemptionCause::kLostKv:
      return v1::PREEMPTION_CAUSE_LOST_KV;
  }
  return v1::PREEMPTION_CAUSE_UNSPECIFIED;
}

v1::WaitReason ToProto(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNotReviewed:
      return v1::WAIT_REASON_NOT_REVIEWED;
    case WaitReason::kSeat:
      return v1::WAIT_REASON_SEAT;
    case WaitReason::kBlocks:
      return v1::WAIT_REASON_KV_BLOCKS;
    case WaitReason::kBehind:
      return v1::WAIT_REASON_BEHIND;
    case WaitReason::kTokenBudget:
      return v1::WAIT_REASON_TOKEN_BUDGET;
    case WaitReason::kSharedPrefix:
      return v1::WAIT_REASON_SHARED_PREFIX;
    case WaitReason::kLostWork:
      return v1::WAIT_REASON_LOST_WORK;
    case WaitReason::kClosedBatch:
      return v1::WAIT_REASON_CLOSED_BATCH;
    case WaitReason::kFuture:
      return v1::WAIT_REASON_FUTURE_KV_BLOCKS;
    case WaitReason::kCopies:
      return v1::WAIT_REASON_COPIES;
    case WaitReason::kGaveWay:
      return v1::WAIT_REASON_GAVE_WAY;
  }
  return v1::WAIT_REASON_UNSPECIFIED;
}

v1::SequencePhase ToProto(SequenceExplanation::Phase phase) {
  switch (phase) {
    case SequenceExplanation::Phase::kWaiting:
      return v1::SEQUENCE_PHASE_WAITING;
    case SequenceExplanation::Phase::kPreempted:
      return v1::SEQUENCE_PHASE_PREEMPTED;
    case SequenceExplanation::Phase::kPrefilling:
      return v1::SEQUENCE_PHASE_PREFILLING;
    case SequenceExplanation::Phase::kDecoding:
      return v1::SEQUENCE_PHASE_DECODING;
  }
  return v1::SEQUENCE_PHASE_UNSPECIFIED;
}

v1::PriorityClass ToProto(PriorityClass priority) {
  switch (priority) {
    case PriorityClass::kRealtime:
      return v1::PRIORITY_CLASS_REALTIME;
    case PriorityClass::kInteractive:
      return v1::PRIORITY_CLASS_INTERACTIVE;
    case PriorityClass::kBatch:
      return v1::PRIORITY_CLASS_BATCH;
  }
  return v1::PRIORITY_CLASS_UNSPECIFIED;
}

v1::TimelineEvent ToProto(const TimelineEvent& event) {
  v1::TimelineEvent message;
  message.set_seconds(event.seconds);
  message.set_generated_tokens(event.tokens_generated);
  switch (event.kind) {
    case TimelineEvent::Kind::kSubmitted:
      message.mutable_submitted()->set_level(event.level);
      break;
    case TimelineEvent::Kind::kLevel:
      message.mutable_level()->set_level(event.level);
      break;
    case TimelineEvent::Kind::kScheduled:
      message.mutable_scheduled();
      break;
    case TimelineEvent::Kind::kFirstToken:
      message.mutable_first_token();
      break;
    case TimelineEvent::Kind::kPreempted:
      message.mutable_preempted()->set_cause(ToProto(event.cause));
      message.mutable_preempted()->set_tokens_lost(event.tokens_lost);
      if (event.cause == PreemptionCause::kPolicy) message.mutable_preempted()->set_by_level(event.level);
      break;
    case TimelineEvent::Kind::kResumed:
      message.mutable_resumed()->set_tokens_restored(event.tokens_restored);
      message.mutable_resumed()->set_tokens_recomputed(event.tokens_recomputed);
      break;
    case TimelineEvent::Kind::kFinished:
      message.mutable_finished();
      break;
  }
  return message;
}

void AddWait(const ChoiceExplanation& choice, v1::ChoiceExplanation* message) {
  if (!choice.sequence.waits_for) return;
  const WaitNote& note = *choice.sequence.waits_for;
  v1::WaitExplanation* wait = message->mutable_wait();
  wait->set_reason(ToProto(note.reason));
  wait->set_other_request_id(choice.other_request_id);
  if (note.reason == WaitReason::kBehind) wait->set_other_reason(ToProto(note.other_reason));
  wait->set_blocks_wanted(note.blocks_wanted);
  wait->set_blocks_available(note.blocks_available);
  wait->set_running(choice.sequence.running);
  wait->set_seats(choice.sequence.seats);
}

void AddPreemption(const ChoiceExplanation& choice, v1::ChoiceExplanation* message) {
  if (!choice.sequence.preempted) return;
  const PreemptionNote& note = *choice.sequence.preempted;
  v1::PreemptionExplanation* preempted = message->mutable_preempted();
  preempted->set_cause(ToProto(note.cause));
  preempted->set_by_request_id(choice.preempted_by_request_id);
  preempted->set_by_level(note.by_level);
  preempted->set_tokens_lost(note.tokens_lost);
  *preempted->mutable_ago() = skipjack::ToProto(choice.sequence.since_preempted);
}

void AddPlace(const SequenceExplanation& sequence, v1::ChoiceExplanation* message) {
  v1::SequencePlace* place = message->mutable_place();
  place->set_priority(ToProto(sequence.priority));
  place->set_late(sequence.late);
  place->set_tenant_share(sequence.share);
  place->set_level(sequence.level);
  place->set_key(sequence.key);
}

void Fill(const ChoiceExplanation& choice, v1::ChoiceExplanation* message) {
  const SequenceExplanation& sequence = choice.sequence;
  message->set_choice(choice.choice);
  message->set_sentence(choice.sentence);
  message->set_phase(ToProto(sequence.phase));
  AddPlace(sequence, message);
  message->set_ahead(sequence.ahead);
  message->set_ahead_is_more(sequence.ahead_is_more);
  AddWait(choice, message);
  if (sequence.promoted_in) *message->mutable_promoted_in() = skipjack::ToProto(*sequence.promoted_in);
  message->set_blocks(sequence.blocks);
  message->set_computed_tokens(sequence.computed_tokens);
  message->set_prompt_tokens(sequence.prompt_tokens);
  message->set_generated_tokens(sequence.generated_tokens);
  message->set_max_tokens(sequence.max_tokens);
  message->set_scheduled_tokens(sequence.scheduled);
  *message->mutable_since_served() = skipjack::ToProto(sequence.since_served);
  message->set_promotions(sequence.promotions);
  message->set_preemptions(sequence.preemptions);
  AddPreemption(choice, message);
}

}  // namespace

v1::Timeline ToProto(const ChoiceTimeline& choice) {
  v1::Timeline message;
  message.set_choice(choice.choice);
  for (const TimelineEvent& event : choice.timeline->events) *message.add_events() = ToProto(event);
  message.set_left_out(choice.timeline->left_out);
  return message;
}

v1::RequestExplanation ToProto(const RequestExplanation& explanation) {
  v1::RequestExplanation message;
  *message.mutable_request() = ToProto(explanation.request);
  message.set_submitted(explanation.submitted);
  for (const ChoiceExplanation& choice : explanation.choices) Fill(choice, message.add_choices());
  return message;
}

}  // namespace skipjack
