#include "serve/grpc/response_queue.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "serve/grpc/explanation_conversion.h"

namespace skipjack {
namespace {

// At least what the numbers, lengths and tags of one entry take on the wire.
constexpr std::size_t kEntryOverhead = 32;
constexpr std::size_t kIdBytes = 5;
constexpr std::size_t kLongestCharacter = 4;

v1::TextDelta* DeltaOf(std::int32_t choice, v1::GenerateResponse* response) {
  for (v1::TextDelta& delta : *response->mutable_deltas()) {
    if (delta.choice() == choice) return &delta;
  }
  v1::TextDelta* delta = response->add_deltas();
  delta->set_choice(choice);
  return delta;
}

std::size_t SizeOf(const TokenPiece& piece, bool logprobs) {
  std::size_t bytes = kEntryOverhead + piece.bytes.size();
  if (!logprobs) return bytes;
  for (const TokenPiece::Alternative& alternative : piece.top)
    bytes += kEntryOverhead + alternative.bytes.size();
  return bytes;
}

// How much of `text` (valid UTF-8) fits into `most` bytes, at least kLongestCharacter, without cutting a
// character.
std::size_t FittingPrefix(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

v1::FinishReason ToProto(FinishReason reason) {
  return reason == FinishReason::kLength ? v1::FINISH_REASON_LENGTH : v1::FINISH_REASON_STOP;
}

}  // namespace

void ResponseQueue::AddStarted(Accepted accepted) {
  const std::size_t names = kEntryOverhead + accepted.request_id.size() + accepted.model.size();
  v1::GenerateStarted* started = RoomFor(names).message.mutable_started();
  started->set_request_id(std::move(accepted.request_id));
  started->set_model(std::move(accepted.model));
  started->set_prompt_tokens(static_cast<std::int32_t>(accepted.prompt_tokens.size()));
  started->set_created_unix_seconds(accepted.created_unix_seconds);
  if (!options_.prompt_token_ids) return;
  for (std::size_t done = 0; done < accepted.prompt_tokens.size();) {
    Slot& slot = RoomFor(kIdBytes);
    const std::size_t room = (max_message_bytes_ - std::min(slot.size, max_message_bytes_)) / kIdBytes;
    const std::size_t count = std::min(1 + room, accepted.prompt_tokens.size() - done);
    slot.size += (count - 1) * kIdBytes;
    const auto begin = accepted.prompt_tokens.begin() + static_cast<std::ptrdiff_t>(done);
    slot.message.mutable_started()->mutable_prompt_token_ids()->Add(
        begin, begin + static_cast<std::ptrdiff_t>(count));
    done += count;
  }
}

void ResponseQueue::AddDelta(ChoiceDelta delta) {
  const std::int32_t choice = delta.choice;
  AddText(choice, std::move(delta.text));
  if (options_.tokens) {
    for (TokenPiece& piece : delta.tokens) AddToken(choice, std::move(piece));
    return;
  }
  v1::TextDelta* message = DeltaOf(choice, &slots_.back().message);
  message->set_token_count(message->token_count() + static_cast<std::int32_t>(delta.tokens.size()));
}

void ResponseQueue::AddText(std::int32_t choice, std::string text) {
  std::string_view left = text;
  do {
    Slot& slot = RoomFor(kEntryOverhead + kLongestCharacter);
    const std::size_t room = max_message_bytes_ - std::min(slot.size, max_message_bytes_);
    const std::size_t count = FittingPrefix(left, kLongestCharacter + room);
    slot.size += std::max(count, kLongestCharacter) - kLongestCharacter;
    DeltaOf(choice, &slot.message)->mutable_text()->append(left.substr(0, count));
    CountOutput(slot, kEntryOverhead + count);
    left.remove_prefix(count);
  } while (!left.empty());
}

void ResponseQueue::AddToken(std::int32_t choice, TokenPiece piece) {
  const std::size_t bytes = SizeOf(piece, options_.logprobs);
  Slot& slot = RoomFor(bytes);
  CountOutput(slot, bytes);
  v1::TextDelta* delta = DeltaOf(choice, &slot.message);
  delta->set_token_count(delta->token_count() + 1);
  v1::Token* token = delta->add_tokens();
  token->set_id(piece.id);
  token->set_bytes(std::move(piece.bytes));
  token->set_ends_text(piece.ends_text);
  if (!options_.logprobs) return;
  token->set_logprob(piece.logprob);
  for (TokenPiece::Alternative& alternative : piece.top) {
    v1::TokenLogprob* top = token->add_top();
    top->set_id(alternative.id);
    top->set_bytes(std::move(alternative.bytes));
    top->set_logprob(alternative.logprob);
  }
}

void ResponseQueue::AddFinish(ChoiceFinish finish) {
  v1::ChoiceFinish* message = RoomFor(kEntryOverhead + finish.stop_string.size()).message.add_finished();
  message->set_choice(finish.choice);
  message->set_reason(ToProto(finish.reason));
  if (!finish.stop_string.empty()) message->set_stop_string(std::move(finish.stop_string));
  if (finish.stop_token) message->set_stop_token(*finish.stop_token);
  message->set_generated_tokens(finish.generated_tokens);
}

void ResponseQueue::AddCompleted(const Completed& completed) {
  std::size_t events = 0;
  for (const ChoiceTimeline& choice : completed.timelines) events += 1 + choice.timeline->events.size();
  v1::GenerateCompleted* message = RoomFor((3 + events) * kEntryOverhead).message.mutable_completed();
  v1::Usage* usage = message->mutable_usage();
  usage->set_prompt_tokens(completed.usage.prompt_tokens);
  usage->set_completion_tokens(completed.usage.completion_tokens);
  usage->set_cached_tokens(completed.usage.cached_tokens);
  v1::Timings* timings = message->mutable_timings();
  timings->set_queue_seconds(completed.timings.queue_seconds);
  timings->set_prefill_seconds(completed.timings.prefill_seconds);
  timings->set_decode_seconds(completed.timings.decode_seconds);
  timings->set_preemptions(completed.timings.preemptions);
  for (const ChoiceTimeline& choice : completed.timelines) *message->add_timelines() = ToProto(choice);
}

void ResponseQueue::TakeFirst(v1::GenerateResponse* message) {
  Slot& first = slots_.front();
  message->Clear();
  message->Swap(&first.message);
  spare_.Swap(&first.message);
  output_bytes_ -= first.output;
  slots_.pop_front();
}

void ResponseQueue::Clear() {
  slots_.clear();
  output_bytes_ = 0;
}

ResponseQueue::Slot& ResponseQueue::RoomFor(std::size_t bytes) {
  if (slots_.empty() || (slots_.back().size > 0 && slots_.back().size + bytes > max_message_bytes_)) {
    slots_.emplace_back().message.Swap(&spare_);
  }
  slots_.back().size += bytes;
  return slots_.back();
}

void ResponseQueue::CountOutput(Slot& slot, std::size_t bytes) {
  slot.output += static_cast<std::int64_t>(bytes);
  output_bytes_ += static_cast<std::int64_t>(bytes);
}

}  // namespace skipjack
