// What a running request's sink and its reader share.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "registry/model_registry.h"
#include "skipjack/skipjack.h"
#include "text/output_text.h"

namespace skipjack::embed {

Error ToError(const Status& status);

// The engine's thread writes, the reader's reads. Bounded by the request's max_tokens.
struct Generation::State {
  // Set before the first token, or where it does not matter any more.
  std::shared_ptr<const ServedModel> model;
  SequenceId sequence = 0;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Piece> pieces;
  std::optional<Completion> end;  // without text and tokens, which the reader collects

  // The reader's own.
  std::string text;
  std::vector<std::int32_t> tokens;
};

// Turns tokens into text on the engine's thread, so that a stop string ends the sequence at once.
class GenerationSink final : public SequenceSink {
 public:
  GenerationSink(std::shared_ptr<Generation::State> state, std::shared_ptr<const Tokenizer> tokenizer,
                 OutputText::Options options);

  bool OnToken(const TokenEvent& event) override;
  void OnFinish(const FinishEvent& event) override;

 private:
  Piece Take(TextDelta delta);
  void Push(Piece piece);

  // Let go at the end: the reader may be the last to know the model.
  std::shared_ptr<Generation::State> state_;
  OutputText text_;
  std::deque<TokenId> held_back_;  // whose text has not been released
  std::string stop_string_;
};

}  // namespace skipjack::embed
