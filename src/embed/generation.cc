#include "embed/generation.h"

#include <algorithm>
#include <utility>

namespace skipjack::embed {
namespace {

FinishReason PublicReason(skipjack::FinishReason reason) {
  switch (reason) {
    case skipjack::FinishReason::kStop:
      return FinishReason::kStop;
    case skipjack::FinishReason::kLength:
      return FinishReason::kLength;
    case skipjack::FinishReason::kCancelled:
    case skipjack::FinishReason::kError:
      break;
  }
  return FinishReason::kFailed;
}

}  // namespace

Error ToError(const Status& status) {
  return {static_cast<int>(status.code()), status.message()};
}

GenerationSink::GenerationSink(std::shared_ptr<Generation::State> state,
                               std::shared_ptr<const Tokenizer> tokenizer, OutputText::Options options)
    : state_(std::move(state)), text_(std::move(tokenizer), std::move(options)) {}

bool GenerationSink::OnToken(const TokenEvent& event) {
  if (event.ends_text) return false;
  held_back_.push_back(event.token.token);
  TextDelta delta = text_.Append(event.token.token);
  const bool stopped = delta.stopped;
  if (stopped) stop_string_ = delta.stop_string;
  Push(Take(std::move(delta)));
  return stopped;
}

void GenerationSink::OnFinish(const FinishEvent& event) {
  Push(Take(text_.Finish()));
  Completion end;
  end.error = ToError(event.status);
  end.reason = PublicReason(event.reason);
  end.stop_string = std::move(stop_string_);
  end.prompt_tokens = event.prompt_tokens;
  end.cached_tokens = event.timings.cached_tokens;
  end.generated_tokens = event.generated_tokens;
  end.queue_seconds = event.timings.queue_seconds;
  end.prefill_seconds = event.timings.prefill_seconds;
  end.decode_seconds = event.timings.decode_seconds;
  {
    std::lock_guard guard(state_->mutex);
    state_->end = std::move(end);
  }
  state_->changed.notify_all();
  state_.reset();
}

Piece GenerationSink::Take(TextDelta delta) {
  Piece piece;
  piece.text = std::move(delta.text);
  const auto count = static_cast<std::ptrdiff_t>(std::min(delta.tokens, held_back_.size()));
  piece.tokens.assign(held_back_.begin(), held_back_.begin() + count);
  held_back_.erase(held_back_.begin(), held_back_.begin() + count);
  return piece;
}

void GenerationSink::Push(Piece piece) {
  if (piece.text.empty() && piece.tokens.empty()) return;
  {
    std::lock_guard guard(state_->mutex);
    state_->pieces.push_back(std::move(piece));
  }
  state_->changed.notify_all();
}

Generation::Generation(std::shared_ptr<State> state) : state_(std::move(state)) {}

Generation::~Generation() {
  Cancel();
}

bool Generation::Next(Piece* piece) {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return !state_->pieces.empty() || state_->end; });
  if (state_->pieces.empty()) return false;
  *piece = std::move(state_->pieces.front());
  state_->pieces.pop_front();
  state_->text += piece->text;
  state_->tokens.insert(state_->tokens.end(), piece->tokens.begin(), piece->tokens.end());
  return true;
}

void Generation::Cancel() {
  state_->model->engine->Cancel(state_->sequence, Status::Cancelled("cancelled"));
}

Completion Generation::Finish() {
  Piece piece;
  while (Next(&piece)) continue;
  std::lock_guard guard(state_->mutex);
  Completion completion = *state_->end;
  completion.text = state_->text;
  completion.tokens = state_->tokens;
  return completion;
}

}  // namespace skipjack::embed
