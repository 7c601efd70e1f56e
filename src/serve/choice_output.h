// Turns one choice's tokens into what may be sent of it. Text, ids and log-probabilities are released
// together.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "engine/engine.h"
#include "serve/completion_session.h"
#include "text/output_text.h"
#include "text/tokenizer.h"

namespace skipjack {

class ChoiceOutput final : public SequenceSink {
 public:
  ChoiceOutput(std::shared_ptr<CompletionSession> session, std::int32_t choice,
               std::shared_ptr<const Tokenizer> tokenizer, const OutputText::Options& options);

  bool OnToken(const TokenEvent& event) override;
  void OnFinish(const FinishEvent& event) override;

 private:
  TokenPiece PieceOf(const SampledToken& token) const;
  // The text with the tokens it releases.
  ChoiceDelta Take(TextDelta text);

  const std::shared_ptr<CompletionSession> session_;
  const std::int32_t choice_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  // The engine's step thread.
  OutputText text_;
  std::deque<TokenPiece> held_back_;
  std::optional<TokenPiece> end_token_;
  std::string stop_string_;
};

}  // namespace skipjack
