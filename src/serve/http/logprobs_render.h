// Log-probabilities in the two forms OpenAI has for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "serve/http/json_writer.h"
#include "serve/inference_service.h"

namespace skipjack::http {

// How many characters begin in `text`, which may be any part of valid UTF-8.
std::int64_t CountCharacters(std::string_view text);

// {"text_offset", "token_logprobs", "tokens", "top_logprobs"}. Offsets count characters, beginning at
// `offset`. A token that is no text by itself is written "bytes:\xf0\x9f", so that different tokens stay
// different keys.
void RenderCompletionLogprobs(JsonWriter* json, std::span<const TokenPiece> tokens, std::int64_t offset);

// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null}. `bytes` holds the raw bytes,
// `token` a replacement character for each bad part.
void RenderChatLogprobs(JsonWriter* json, std::span<const TokenPiece> tokens);

}  // namespace skipjack::http
