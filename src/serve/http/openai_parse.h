// OpenAI's request bodies, with vLLM's extensions, into the transport-neutral requests of InferenceService.
// Types are checked here, exactly; ranges and the model are the service's to check, for both protocols by the
// same rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/http/error_json.h"
#include "serve/inference_service.h"
#include "serve/json_checked.h"

namespace skipjack::http {

enum class Api : std::uint8_t { kCompletions, kChat };

struct ParseOptions {
  JsonLimits json;
  std::size_t max_prompts = 256;
  bool strict = false;  // unknown fields are refused
};

// How the answer is to look.
struct AnswerOptions {
  Api api = Api::kCompletions;
  bool stream = false;
  bool include_usage = false;     // stream_options.include_usage
  bool continuous_usage = false;  // stream_options.continuous_usage_stats
  bool logprobs = false;
  bool return_token_ids = false;
  bool echo = false;
};

struct ParsedCompletion {
  CompletionRequest request;    // all but the prompt
  std::vector<Prompt> prompts;  // each becomes a request of its own; at least one
  std::int64_t choices = 1;     // n, as the client sent it
  AnswerOptions answer;
  std::vector<std::string> ignored_fields;  // unknown, not refused
};

template <typename T>
using Parsed = std::variant<T, HttpError>;

Parsed<ParsedCompletion> ParseCompletion(Api api, std::string_view body, const ParseOptions& options);

struct ParsedTokenize {
  std::string model;
  Prompt prompt;
  bool add_special_tokens = true;
  bool parse_special = false;
  bool return_token_strings = false;
  std::vector<std::string> ignored_fields;
};
Parsed<ParsedTokenize> ParseTokenize(std::string_view body, const ParseOptions& options);

struct ParsedDetokenize {
  std::string model;
  std::vector<std::int64_t> tokens;
  bool skip_special_tokens = false;
  std::vector<std::string> ignored_fields;
};
Parsed<ParsedDetokenize> ParseDetokenize(std::string_view body, const ParseOptions& options);

}  // namespace skipjack::http
