#include "sched/explanation.h"

#include <cstdio>

namespace skipjack {
namespace {

std::string Seconds(Duration time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", ToSeconds(time));
  return text;
}

std::string Count(std::int64_t count, const char* one, const char* many) {
  return std::to_string(count) + ' ' + (count == 1 ? one : many);
}

// "KV blocks: wants 12, 3 are available"; empty numbers where it was a seat that was missing.
std::string Blocks(const WaitNote& note) {
  return "wants " + std::to_string(note.blocks_wanted) + ", " + std::to_string(note.blocks_available) +
         (note.blocks_available == 1 ? " is available" : " are available");
}

// What `reason` is, behind "waits for".
std::string Want(WaitReason reason, const WaitNote& note, std::int32_t seats) {
  switch (reason) {
    case WaitReason::kNotReviewed:
      return "the next plan: it came after the last one";
    case WaitReason::kSeat:
      return "a seat: all " + std::to_string(seats) + " are taken by those it may not push aside";
    case WaitReason::kBlocks:
      return "KV blocks: " + Blocks(note);
    case WaitReason::kTokenBudget:
      return "room in a step: those ahead of it took all of the last one's tokens";
    case WaitReason::kSharedPrefix:
      return "its prefix, which is being computed";
    case WaitReason::kLostWork:
      return "preemptions to resume: too much work was lost to them lately" +
             (note.blocks_wanted > 0 ? "; " + Blocks(note) + " (KV blocks)" : std::string());
    case WaitReason::kClosedBatch:
      return "the batch that runs to end";
    case WaitReason::kFuture:
      return "KV blocks that those who run are expected to need: " + Blocks(note);
    case WaitReason::kCopies:
      return note.blocks_wanted > 0 ? "KV blocks that are being copied out: " + Blocks(note)
                                    : std::string("its own KV, which is being copied in");
    case WaitReason::kGaveWay:
      return "the next plan: it gave way in the last one";
    case WaitReason::kBehind:
      break;
  }
  return "others";
}

std::string WaitText(const SequenceExplanation& explanation,
                     const std::function<std::string(SequenceId)>& name_of) {
  const WaitNote& note = *explanation.waits_for;
  switch (note.reason) {
    case WaitReason::kBehind:
      return "waits behind " + name_of(note.other) + ", which waits for " +
             Want(note.other_reason, note, explanation.seats);
    case WaitReason::kSharedPrefix:
      return "waits for its prefix, which " + name_of(note.other) + " is just computing";
    default:
      return "waits for " + Want(note.reason, note, explanation.seats);
  }
}

std::string AheadText(const SequenceExplanation& explanation) {
  if (explanation.ahead == 0 && explanation.ahead_is_more) return {};  // nothing is known of it
  if (explanation.ahead == 0) return "; nobody who waits goes before it";
  return std::string("; ") + (explanation.ahead_is_more ? "at least " : "") +
         Count(explanation.ahead, "sequence that waits goes", "sequences that wait go") + " before it";
}

std::string RunText(const SequenceExplanation& explanation) {
  const std::string held = " and holds " + Count(explanation.blocks, "KV block", "KV blocks");
  if (explanation.phase == SequenceExplanation::Phase::kDecoding) {
    return "decodes token " + std::to_string(explanation.generated_tokens + 1) + " of at most " +
           std::to_string(explanation.max_tokens) + held;
  }
  const std::int32_t known = explanation.prompt_tokens + explanation.generated_tokens;
  return "has computed " + std::to_string(explanation.computed_tokens) + " of " + std::to_string(known) +
         " tokens" + held;
}

std::string PreemptionText(const SequenceExplanation& explanation,
                           const std::function<std::string(SequenceId)>& name_of) {
  const PreemptionNote& note = *explanation.preempted;
  std::string out = "; " +
                    (explanation.preemptions == 1
                         ? std::string("preempted ")
                         : "preempted " + std::to_string(explanation.preemptions) + " times, last ") +
                    Seconds(explanation.since_preempted) + " ago";
  const std::string other = note.by != 0 ? name_of(note.by) : "nobody else";
  switch (note.cause) {
    case PreemptionCause::kPriority:
      out += " by " + other + ", whose priority class is higher";
      break;
    case PreemptionCause::kDeadline:
      out += " by " + other + ", which can still meet its deadline";
      break;
    case PreemptionCause::kPolicy:
      out += " by " + other + " of level " + std::to_string(note.by_level) + ", which goes first";
      break;
    case PreemptionCause::kGrowth:
      out += note.by != 0 ? " because " + other + " needed its KV blocks to go on"
                          : std::string(" because there was no KV block for its next token");
      break;
    case PreemptionCause::kLostKv:
      out += " because its KV could not be read back";
      break;
  }
  return out + ", " + Count(note.tokens_lost, "computed token", "computed tokens") + " lost";
}

}  // namespace

std::string_view WaitReasonName(WaitReason reason) {
  switch (reason) {
    case WaitReason::kNotReviewed:
      return "not_reviewed";
    case WaitReason::kSeat:
      return "seat";
    case WaitReason::kBlocks:
      return "kv_blocks";
    case WaitReason::kBehind:
      return "behind";
    case WaitReason::kTokenBudget:
      return "token_budget";
    case WaitReason::kSharedPrefix:
      return "shared_prefix";
    case WaitReason::kLostWork:
      return "lost_work";
    case WaitReason::kClosedBatch:
      return "closed_batch";
    case WaitReason::kFuture:
      return "future_kv_blocks";
    case WaitReason::kCopies:
      return "copies";
    case WaitReason::kGaveWay:
      return "gave_way";
  }
  return "unknown";
}

std::string_view PhaseName(SequenceExplanation::Phase phase) {
  switch (phase) {
    case SequenceExplanation::Phase::kWaiting:
      return "waiting";
    case SequenceExplanation::Phase::kPreempted:
      return "preempted";
    case SequenceExplanation::Phase::kPrefilling:
      return "prefilling";
    case SequenceExplanation::Phase::kDecoding:
      return "decoding";
  }
  return "unknown";
}

std::string ToSentence(const SequenceExplanation& explanation,
                       const std::function<std::string(SequenceId)>& name_of) {
  const bool waits = explanation.phase == SequenceExplanation::Phase::kWaiting ||
                     explanation.phase == SequenceExplanation::Phase::kPreempted;
  std::string out = waits ? std::string() : RunText(explanation);
  if (explanation.waits_for.has_value()) {
    if (!waits) out += "; ";
    out += WaitText(explanation, name_of);
  }
  if (waits) out += AheadText(explanation);
  if (waits && explanation.promoted_in.has_value()) {
    out += "; goes ahead for having waited in " + Seconds(*explanation.promoted_in);
  }
  if (explanation.late) out += "; can no longer meet its deadline";
  if (explanation.preempted.has_value()) out += PreemptionText(explanation, name_of);
  return out;
}

}  // namespace skipjack
