#include "serve/http/openai_parse.h"

#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "serve/http/chat_parse.h"
#include "serve/http/field_reader.h"

namespace skipjack::http {
namespace {

// Fields that would change the answer and that we cannot honour. Each may be given with the value that asks
// for nothing; anything else is refused by name rather than dropped.
struct Unsupported {
  std::string_view name;
  const char* neutral;  // as JSON, beside null
};
constexpr std::array<Unsupported, 28> kUnsupported = {{
    {"suffix", "\"\""},
    {"use_beam_search", "false"},
    {"length_penalty", "1.0"},
    {"allowed_token_ids", "[]"},
    {"bad_words", "[]"},
    {"logits_processors", "[]"},
    {"logprob_token_ids", "[]"},
    {"prompt_logprobs", "null"},
    {"prompt_embeds", "null"},
    {"truncate_prompt_tokens", "null"},
    {"return_tokens_as_token_ids", "false"},
    {"structured_outputs", "null"},
    {"guided_json", "null"},
    {"guided_regex", "null"},
    {"guided_choice", "null"},
    {"guided_grammar", "null"},
    {"guided_decoding_backend", "null"},
    {"grammar", "\"\""},
    {"json_schema", "null"},
    {"functions", "[]"},
    {"function_call", "\"none\""},
    {"modalities", "[\"text\"]"},
    {"audio", "null"},
    {"prediction", "null"},
    {"web_search_options", "null"},
    {"chat_template", "null"},
    {"mm_processor_kwargs", "null"},
    {"thinking_token_budget", "-1"},
}};

// Accepted because clients send them as a matter of course; they change no answer here.
constexpr std::array<std::string_view, 11> kWithoutEffect = {"user",
                                                             "metadata",
                                                             "store",
                                                             "service_tier",
                                                             "safety_identifier",
                                                             "prompt_cache_key",
                                                             "parallel_tool_calls",
                                                             "spaces_between_special_tokens",
                                                             "stream_interval",
                                                             "include_reasoning",
                                                             "session_id"};

void RefuseUnsupported(FieldReader* reader) {
  for (const Unsupported& field : kUnsupported) {
    const Json* value = reader->Value(field.name);
    if (value != nullptr && *value != Json::parse(field.neutral))
      reader->Fail(field.name, "is not supported");
  }
  for (const std::string_view name : kWithoutEffect) reader->Value(name);
  if (Json* format = reader->Object("response_format")) {
    FieldReader fields(format, "response_format.");
    const std::optional<std::string> type = fields.String("type");
    if (type != "text") {
      fields.Fail("type", "must be \"text\": structured output is not supported" +
                              (type ? ", got " + DescribeJson(*type) : std::string()));
    }
    reader->Adopt(fields);
  }
}

std::vector<std::string> ReadStop(FieldReader* reader) {
  Json* value = reader->Value("stop");
  if (value == nullptr) return {};
  std::vector<std::string> stop;
  if (value->is_string()) {
    stop.push_back(std::move(value->get_ref<std::string&>()));
  } else if (!value->is_array()) {
    reader->Fail("stop", "must be a string or an array of strings, got " + DescribeJson(*value));
  } else {
    for (std::size_t i = 0; i < value->size(); ++i) {
      Json& entry = (*value)[i];
      if (!entry.is_string()) {
        reader->Fail("stop[" + std::to_string(i) + "]", "must be a string, got " + DescribeJson(entry));
        return {};
      }
      stop.push_back(std::move(entry.get_ref<std::string&>()));
    }
  }
  return stop;
}

std::vector<std::pair<std::int64_t, double>> ReadLogitBias(FieldReader* reader) {
  std::vector<std::pair<std::int64_t, double>> bias;
  const Json* object = reader->Object("logit_bias");
  if (object == nullptr) return bias;
  for (const auto& [name, value] : object->items()) {
    std::int64_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size()) {
      reader->Fail("logit_bias", "must have token ids as keys, got " + DescribeJson(name));
      return {};
    }
    if (!value.is_number()) {
      reader->Fail("logit_bias", "must have numbers as values, got " + DescribeJson(value) + " for " + name);
      return {};
    }
    bias.emplace_back(id, value.get<double>());
  }
  return bias;
}

std::optional<Duration> ReadTimeout(FieldReader* reader) {
  constexpr double kMostSeconds = 1e9;
  const std::optional<double> seconds = reader->Number("timeout");
  if (!seconds) return std::nullopt;
  if (*seconds > 0 && *seconds <= kMostSeconds) return FromSeconds(*seconds);
  reader->Fail("timeout", "must lie in (0, 1e9] seconds, got " + DescribeJson(*seconds));
  return std::nullopt;
}

PriorityClass ReadPriority(FieldReader* reader) {
  const std::optional<std::string> name = reader->String("priority");
  if (!name || *name == "interactive") return PriorityClass::kInteractive;
  if (*name == "realtime") return PriorityClass::kRealtime;
  if (*name == "batch") return PriorityClass::kBatch;
  reader->Fail("priority", "must be \"realtime\", \"interactive\" or \"batch\", got " + DescribeJson(*name));
  return PriorityClass::kInteractive;
}

std::string ReadRequestId(FieldReader* reader) {
  std::optional<std::string> id = reader->String("request_id");
  if (!id) return "";
  if (!IsUsableRequestId(*id)) {
    reader->Fail("request_id",
                 "must be 1 to 128 visible ASCII characters without quotes, commas and semicolons");
  }
  return *std::move(id);
}

// Both names mean the same; the newer one is OpenAI's for chat, and clients use it for completions too.
std::optional<std::int64_t> ReadMaxTokens(FieldReader* reader) {
  const std::optional<std::int64_t> max_tokens = reader->Integer("max_tokens");
  const std::optional<std::int64_t> newer = reader->Integer("max_completion_tokens");
  if (newer && max_tokens && *newer != *max_tokens) {
    reader->Fail("max_completion_tokens", "must equal max_tokens = " + std::to_string(*max_tokens) +
                                              " where both are given, got " + std::to_string(*newer));
  }
  return newer ? newer : max_tokens;
}

std::string ReadCacheSalt(FieldReader* reader) {
  std::optional<std::string> salt = reader->String("cache_salt");
  if (salt && salt->empty()) reader->Fail("cache_salt", "must not be empty");
  return std::move(salt).value_or("");
}

CompletionRequest ReadCommon(FieldReader* reader, Api api) {
  CompletionRequest request;
  request.request_id = ReadRequestId(reader);
  request.model = reader->String("model").value_or("");
  request.add_special_tokens = reader->BoolOr("add_special_tokens", api == Api::kCompletions);
  request.temperature = reader->Number("temperature");
  request.top_p = reader->Number("top_p");
  request.min_p = reader->Number("min_p");
  request.typical_p = reader->Number("typical_p");
  request.top_k = reader->Integer("top_k");
  request.repetition_penalty = reader->Number("repetition_penalty");
  request.presence_penalty = reader->Number("presence_penalty");
  request.frequency_penalty = reader->Number("frequency_penalty");
  request.logit_bias = ReadLogitBias(reader);
  request.seed = reader->Integer("seed");
  request.max_tokens = ReadMaxTokens(reader);
  request.min_tokens = reader->Integer("min_tokens");
  request.n = reader->Integer("n");
  request.ignore_eos = reader->BoolOr("ignore_eos", false);
  request.stop = ReadStop(reader);
  request.stop_token_ids = reader->Integers("stop_token_ids");
  request.include_stop_string = reader->BoolOr("include_stop_str_in_output", false);
  request.skip_special_tokens = reader->BoolOr("skip_special_tokens", true);
  request.cache_salt = ReadCacheSalt(reader);
  request.priority = ReadPriority(reader);
  request.timeout = ReadTimeout(reader);
  request.timeline = reader->BoolOr("return_timeline", false);
  return request;
}

AnswerOptions ReadAnswerOptions(FieldReader* reader, Api api, std::vector<std::string>* unknown) {
  AnswerOptions answer{.api = api};
  answer.stream = reader->BoolOr("stream", false);
  answer.return_token_ids = reader->BoolOr("return_token_ids", false);
  if (Json* options = reader->Object("stream_options")) {
    if (!answer.stream) reader->Fail("stream_options", "needs \"stream\": true");
    FieldReader fields(options, "stream_options.");
    answer.include_usage = fields.BoolOr("include_usage", false);
    answer.continuous_usage = fields.BoolOr("continuous_usage_stats", false);
    fields.Bool("include_obfuscation");
    for (const std::string& name : fields.Unread()) unknown->push_back("stream_options." + name);
    reader->Adopt(fields);
  }
  return answer;
}

std::optional<std::vector<TokenId>> ReadTokens(const Json& array, const std::string& path,
                                               FieldReader* reader) {
  std::vector<TokenId> tokens;
  tokens.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    std::string what;
    const std::optional<std::int64_t> id = ExactInteger(array[i], &what);
    if (id && *id >= 0 && *id <= std::numeric_limits<TokenId>::max()) {
      tokens.push_back(static_cast<TokenId>(*id));
      continue;
    }
    reader->Fail(path + "[" + std::to_string(i) + "]",
                 "must be a token id from 0 to 2147483647, got " + DescribeJson(array[i]));
    return std::nullopt;
  }
  return tokens;
}

// One element of a "prompt" array of several prompts.
std::optional<Prompt> ReadListedPrompt(Json* entry, std::size_t index, FieldReader* reader) {
  const std::string path = "prompt[" + std::to_string(index) + "]";
  if (entry->is_string()) return Prompt(std::move(entry->get_ref<std::string&>()));
  if (entry->is_array()) {
    std::optional<std::vector<TokenId>> tokens = ReadTokens(*entry, path, reader);
    return tokens ? std::optional<Prompt>(std::move(*tokens)) : std::nullopt;
  }
  reader->Fail(path, "must be a string or an array of token ids, got " + DescribeJson(*entry));
  return std::nullopt;
}

std::vector<Prompt> ReadPrompts(FieldReader* reader, std::size_t max_prompts) {
  Json* value = reader->Value("prompt");
  std::vector<Prompt> prompts;
  if (value == nullptr) {
    reader->Fail("prompt", "is required");
  } else if (value->is_string()) {
    prompts.emplace_back(std::move(value->get_ref<std::string&>()));
  } else if (!value->is_array()) {
    reader->Fail("prompt",
                 "must be a string, an array of strings, of token ids, or of arrays of token ids, got " +
                     DescribeJson(*value));
  } else if (value->empty()) {
    reader->Fail("prompt", "must not be an empty array");
  } else if ((*value)[0].is_number()) {
    if (auto tokens = ReadTokens(*value, "prompt", reader)) prompts.emplace_back(std::move(*tokens));
  } else if (value->size() > max_prompts) {
    reader->Fail("prompt", "must hold at most " + std::to_string(max_prompts) + " prompts, got " +
                               std::to_string(value->size()));
  } else {
    for (std::size_t i = 0; i < value->size() && reader->ok(); ++i) {
      if (auto prompt = ReadListedPrompt(&(*value)[i], i, reader)) prompts.push_back(std::move(*prompt));
    }
  }
  return prompts;
}

void ReadCompletionsOnly(FieldReader* reader, const ParseOptions& options, ParsedCompletion* parsed) {
  parsed->prompts = ReadPrompts(reader, options.max_prompts);
  parsed->answer.echo = reader->BoolOr("echo", false);
  parsed->request.top_logprobs = reader->Integer("logprobs");
  parsed->answer.logprobs = parsed->request.top_logprobs.has_value();
  if (parsed->answer.echo && parsed->answer.logprobs) {
    reader->Fail("echo", "with logprobs is not supported: log-probabilities of the prompt are not computed");
  }
  const std::optional<std::int64_t> best_of = reader->Integer("best_of");
  if (best_of && *best_of != parsed->choices) {
    reader->Fail("best_of",
                 "must equal n = " + std::to_string(parsed->choices) + ", got " + std::to_string(*best_of));
  }
}

void ReadChatOnly(FieldReader* reader, ParsedCompletion* parsed) {
  parsed->prompts.emplace_back(ReadChatPrompt(reader));
  if (reader->BoolOr("echo", false)) reader->Fail("echo", "is not supported for chat");

  parsed->answer.logprobs = reader->BoolOr("logprobs", false);
  const std::optional<std::int64_t> top = reader->Integer("top_logprobs");
  if (top && *top != 0 && !parsed->answer.logprobs) reader->Fail("top_logprobs", "needs \"logprobs\": true");
  if (parsed->answer.logprobs) parsed->request.top_logprobs = top.value_or(0);
}

std::variant<Json, HttpError> ParseBody(std::string_view body, const ParseOptions& options) {
  Result<Json> document = ParseJson(body, options.json);
  if (!document.ok()) return BadRequest("the body is not acceptable JSON: " + document.status().message());
  if (!document->is_object())
    return BadRequest("the body must be a JSON object, got " + DescribeJson(*document));
  return *std::move(document);
}

// What is left over joins `ignored`; strict mode refuses it.
void HandleUnknown(FieldReader* reader, const ParseOptions& options, std::vector<std::string>* ignored) {
  for (std::string& name : reader->Unread()) ignored->push_back(std::move(name));
  if (options.strict && !ignored->empty()) reader->Fail(ignored->front(), "is not a known field");
}

}  // namespace

Parsed<ParsedCompletion> ParseCompletion(Api api, std::string_view body, const ParseOptions& options) {
  std::variant<Json, HttpError> document = ParseBody(body, options);
  if (auto* error = std::get_if<HttpError>(&document)) return std::move(*error);
  FieldReader reader(&std::get<Json>(document));

  ParsedCompletion parsed;
  parsed.request = ReadCommon(&reader, api);
  parsed.choices = parsed.request.n.value_or(1);
  parsed.answer = ReadAnswerOptions(&reader, api, &parsed.ignored_fields);
  if (api == Api::kChat) {
    ReadChatOnly(&reader, &parsed);
  } else {
    ReadCompletionsOnly(&reader, options, &parsed);
  }
  RefuseUnsupported(&reader);
  HandleUnknown(&reader, options, &parsed.ignored_fields);
  if (!reader.ok()) return *reader.error();
  return parsed;
}

Parsed<ParsedTokenize> ParseTokenize(std::string_view body, const ParseOptions& options) {
  std::variant<Json, HttpError> document = ParseBody(body, options);
  if (auto* error = std::get_if<HttpError>(&document)) return std::move(*error);
  FieldReader reader(&std::get<Json>(document));

  ParsedTokenize parsed;
  parsed.model = reader.String("model").value_or("");
  const bool chat = reader.Value("messages") != nullptr;
  if (chat) {
    if (reader.Value("prompt") != nullptr) reader.Fail("prompt", "excludes messages");
    parsed.prompt = ReadChatPrompt(&reader);
  } else if (std::optional<std::string> prompt = reader.String("prompt")) {
    parsed.prompt = std::move(*prompt);
  } else {
    reader.Fail("prompt", "or messages is required");
  }
  parsed.add_special_tokens = reader.BoolOr("add_special_tokens", !chat);
  parsed.parse_special = reader.BoolOr("parse_special", false);
  parsed.return_token_strings = reader.BoolOr("return_token_strs", false);
  HandleUnknown(&reader, options, &parsed.ignored_fields);
  if (!reader.ok()) return *reader.error();
  return parsed;
}

Parsed<ParsedDetokenize> ParseDetokenize(std::string_view body, const ParseOptions& options) {
  std::variant<Json, HttpError> document = ParseBody(body, options);
  if (auto* error = std::get_if<HttpError>(&document)) return std::move(*error);
  FieldReader reader(&std::get<Json>(document));

  ParsedDetokenize parsed;
  parsed.model = reader.String("model").value_or("");
  parsed.skip_special_tokens = reader.BoolOr("skip_special_tokens", false);
  if (reader.Value("tokens") == nullptr) reader.Fail("tokens", "is required");
  parsed.tokens = reader.Integers("tokens");
  HandleUnknown(&reader, options, &parsed.ignored_fields);
  if (!reader.ok()) return *reader.error();
  return parsed;
}

}  // namespace skipjack::http
