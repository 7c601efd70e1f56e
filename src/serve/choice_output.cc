#include "serve/choice_output.h"

#include <algorithm>
#include <utility>

namespace skipjack {

ChoiceOutput::ChoiceOutput(std::shared_ptr<CompletionSession> session, std::int32_t choice,
                           std::shared_ptr<const Tokenizer> tokenizer, const OutputText::Options& options)
    : session_(std::move(session)),
      choice_(choice),
      tokenizer_(std::move(tokenizer)),
      text_(tokenizer_, options) {}

bool ChoiceOutput::OnToken(const TokenEvent& event) {
  session_->OnChoiceToken();
  if (event.ends_text) {
    end_token_ = PieceOf(event.token);
    end_token_->ends_text = true;
    return false;
  }
  held_back_.push_back(PieceOf(event.token));
  TextDelta text = text_.Append(event.token.token);
  const bool stopped = text.stopped;
  if (stopped) stop_string_ = std::move(text.stop_string);
  ChoiceDelta delta = Take(std::move(text));
  if (!delta.text.empty() || !delta.tokens.empty()) session_->OnChoiceDelta(std::move(delta));
  return stopped;
}

void ChoiceOutput::OnFinish(const FinishEvent& event) {
  if (!event.status.ok()) {
    session_->OnChoiceEnd(choice_, std::nullopt, event);
    return;
  }
  ChoiceDelta delta = Take(text_.Finish());
  ChoiceFinish finish{.choice = choice_,
                      .reason = event.reason,
                      .stop_string = std::move(stop_string_),
                      .stop_token = std::nullopt,
                      .generated_tokens = event.generated_tokens};
  if (end_token_) {
    finish.stop_token = end_token_->id;
    delta.tokens.push_back(*std::move(end_token_));
  }
  if (!delta.text.empty() || !delta.tokens.empty()) session_->OnChoiceDelta(std::move(delta));
  session_->OnChoiceEnd(choice_, std::move(finish), event);
}

TokenPiece ChoiceOutput::PieceOf(const SampledToken& token) const {
  TokenPiece piece{.id = token.token,
                   .bytes = std::string(tokenizer_->TokenBytes(token.token)),
                   .logprob = token.logprob,
                   .top = {}};
  piece.top.reserve(token.top.size());
  for (const TokenLogprob& top : token.top) {
    piece.top.push_back({top.token, std::string(tokenizer_->TokenBytes(top.token)), top.logprob});
  }
  return piece;
}

ChoiceDelta ChoiceOutput::Take(TextDelta text) {
  ChoiceDelta delta{.choice = choice_, .text = std::move(text.text), .tokens = {}};
  const std::size_t count = std::min(text.tokens, held_back_.size());
  const auto end = held_back_.begin() + static_cast<std::ptrdiff_t>(count);
  delta.tokens.assign(std::make_move_iterator(held_back_.begin()), std::make_move_iterator(end));
  held_back_.erase(held_back_.begin(), end);
  return delta;
}

}  // namespace skipjack
