// Answers in OpenAI's shapes, with vLLM's extensions: whole responses and the chunks of a stream.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/json_writer.h"
#include "serve/http/openai_parse.h"
#include "serve/inference_service.h"

namespace skipjack::http {

// What all chunks of a stream share.
struct AnswerIdentity {
  std::string id;  // with its "cmpl-" or "chatcmpl-"
  std::string model;
  std::int64_t created = 0;  // Unix seconds
};

// How far one choice has come.
struct ChoiceCursor {
  std::int64_t characters =
      0;  // of the text sent, echoed prompt included: where the next token's text begins
  std::int32_t tokens = 0;
};

// A finished choice.
struct ChoiceResult {
  std::size_t prompt = 0;  // which of the request's prompts it answers
  std::string text;
  std::vector<TokenPiece> tokens;  // kept only where the answer shows them
  FinishReason reason = FinishReason::kStop;
  std::string stop_string;
  std::optional<TokenId> stop_token;  // one that the request listed
};

struct PromptEcho {
  std::vector<TokenId> tokens;
  std::string text;  // what `echo` puts in front
};

struct Summary {
  Usage usage;
  Timings timings;
  std::vector<ChoiceTimeline> timelines = {};  // choices run across prompts
};

std::string RenderAnswer(const AnswerOptions& options, const AnswerIdentity& identity,
                         std::span<const ChoiceResult> choices, std::span<const PromptEcho> prompts,
                         const Summary& summary);

// Renders the chunks of one stream. Each function returns a complete JSON document.
class ChunkRenderer {
 public:
  ChunkRenderer(const AnswerOptions& options, const AnswerIdentity& identity);

  // First chunk of a chat choice: the role, and with return_token_ids the prompt.
  std::string Role(std::int32_t choice, const PromptEcho& prompt) const;
  // First chunk of an echoing completion.
  std::string Echo(std::int32_t choice, const PromptEcho& prompt, ChoiceCursor* cursor) const;
  // `first_of` is the prompt when nothing was sent for this choice yet, else nullptr.
  std::string Delta(std::int32_t choice, const ChoiceDelta& delta, const PromptEcho* first_of,
                    std::int32_t prompt_tokens, ChoiceCursor* cursor) const;
  // Timings and timelines ride on the last finish of a stream without a usage chunk.
  std::string Finish(std::int32_t choice, const ChoiceFinish& finish, const PromptEcho* first_of,
                     std::int32_t prompt_tokens, const ChoiceCursor& cursor, const Summary* summary) const;
  std::string UsageOnly(const Summary& summary) const;

  // Would this delta show anything?
  bool Shows(const ChoiceDelta& delta) const;

 private:
  JsonWriter Open(std::string* out, std::int32_t choice) const;
  void Close(JsonWriter* json, const PromptEcho* chat_prompt, const Usage* usage,
             const Summary* summary) const;
  void RenderTokens(JsonWriter* json, std::span<const TokenPiece> tokens, const PromptEcho* first_of,
                    ChoiceCursor* cursor) const;

  AnswerOptions options_;
  std::string prefix_;  // up to and including "choices":[
};

}  // namespace skipjack::http
