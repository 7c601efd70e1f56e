#include "serve/http/openai_render.h"

#include "serve/http/logprobs_render.h"

namespace skipjack::http {
namespace {

// Failures end a request as a whole and never get here.
std::string_view FinishReasonName(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

void RenderIdentity(JsonWriter* json, const AnswerIdentity& identity, std::string_view object) {
  json->Field("id", identity.id).Field("object", object);
  json->Field("created", identity.created).Field("model", identity.model);
}

void RenderUsage(JsonWriter* json, const Usage& usage) {
  json->BeginObject();
  json->Field("prompt_tokens", usage.prompt_tokens);
  json->Field("completion_tokens", usage.completion_tokens);
  json->Field("total_tokens", std::int64_t{usage.prompt_tokens} + usage.completion_tokens);
  json->Key("prompt_tokens_details").BeginObject().Field("cached_tokens", usage.cached_tokens).EndObject();
  json->EndObject();
}

void RenderTimings(JsonWriter* json, const Timings& timings) {
  json->BeginObject();
  json->Field("queue_seconds", timings.queue_seconds);
  json->Field("prefill_seconds", timings.prefill_seconds);
  json->Field("decode_seconds", timings.decode_seconds);
  json->Field("cached_tokens", timings.cached_tokens);
  json->Field("preemptions", timings.preemptions);
  json->EndObject();
}

void RenderEvent(JsonWriter* json, const TimelineEvent& event) {
  json->BeginObject();
  json->Field("event", TimelineEventName(event.kind)).Field("seconds", event.seconds);
  json->Field("generated_tokens", event.tokens_generated);
  switch (event.kind) {
    case TimelineEvent::Kind::kSubmitted:
    case TimelineEvent::Kind::kLevel:
      json->Field("level", event.level);
      break;
    case TimelineEvent::Kind::kPreempted:
      json->Field("cause", PreemptionCauseName(event.cause)).Field("tokens_lost", event.tokens_lost);
      if (event.cause == PreemptionCause::kPolicy) json->Field("by_level", event.level);
      break;
    case TimelineEvent::Kind::kResumed:
      json->Field("tokens_restored", event.tokens_restored);
      json->Field("tokens_recomputed", event.tokens_recomputed);
      break;
    case TimelineEvent::Kind::kScheduled:
    case TimelineEvent::Kind::kFirstToken:
    case TimelineEvent::Kind::kFinished:
      break;
  }
  json->EndObject();
}

// What an answer says of how it was made, beside its choices.
void RenderTimingsAndTimelines(JsonWriter* json, const Summary& summary) {
  RenderTimings(&json->Key("timings"), summary.timings);
  if (summary.timelines.empty()) return;
  json->Key("timeline").BeginArray();
  for (const ChoiceTimeline& choice : summary.timelines) {
    json->BeginObject().Field("index", choice.choice).Key("events").BeginArray();
    for (const TimelineEvent& event : choice.timeline->events) RenderEvent(json, event);
    json->EndArray().Field("left_out", choice.timeline->left_out).EndObject();
  }
  json->EndArray();
}

void RenderIds(JsonWriter* json, std::span<const TokenId> ids) {
  json->BeginArray();
  for (const TokenId id : ids) json->Int(id);
  json->EndArray();
}

void RenderIdsOf(JsonWriter* json, std::span<const TokenPiece> tokens) {
  json->BeginArray();
  for (const TokenPiece& token : tokens) json->Int(token.id);
  json->EndArray();
}

// finish_reason, and vLLM's stop_reason: the stop string or stop id of the request that was met.
void RenderEnd(JsonWriter* json, FinishReason reason, const std::string& stop_string,
               const std::optional<TokenId>& stop_token) {
  json->Field("finish_reason", FinishReasonName(reason)).Key("stop_reason");
  if (!stop_string.empty()) {
    json->String(stop_string);
  } else if (stop_token) {
    json->Int(*stop_token);
  } else {
    json->Null();
  }
}

// The tokens whose log-probabilities are shown. The one that ended the generation is no part of the text:
// OpenAI leaves it out. Beside token ids it stays, so that both lists have the same length.
std::span<const TokenPiece> ScoredTokens(const AnswerOptions& options, std::span<const TokenPiece> tokens) {
  const bool drop = !options.return_token_ids && !tokens.empty() && tokens.back().ends_text;
  return drop ? tokens.first(tokens.size() - 1) : tokens;
}

void RenderChoice(JsonWriter* json, const AnswerOptions& options, std::int32_t index,
                  const ChoiceResult& choice, const PromptEcho& prompt) {
  const bool chat = options.api == Api::kChat;
  json->BeginObject().Field("index", index);
  if (chat) {
    json->Key("message").BeginObject().Field("role", "assistant").Field("content", choice.text);
    json->Key("refusal").Null().EndObject();
  } else {
    json->Field("text", options.echo ? prompt.text + choice.text : choice.text);
  }
  json->Key("logprobs");
  if (!options.logprobs) {
    json->Null();
  } else if (chat) {
    RenderChatLogprobs(json, ScoredTokens(options, choice.tokens));
  } else {
    RenderCompletionLogprobs(json, ScoredTokens(options, choice.tokens), 0);
  }
  RenderEnd(json, choice.reason, choice.stop_string, choice.stop_token);
  if (options.return_token_ids) {
    if (!chat) RenderIds(&json->Key("prompt_token_ids"), prompt.tokens);
    RenderIdsOf(&json->Key("token_ids"), choice.tokens);
  }
  json->EndObject();
}

}  // namespace

std::string RenderAnswer(const AnswerOptions& options, const AnswerIdentity& identity,
                         std::span<const ChoiceResult> choices, std::span<const PromptEcho> prompts,
                         const Summary& summary) {
  const bool chat = options.api == Api::kChat;
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  RenderIdentity(&json, identity, chat ? "chat.completion" : "text_completion");
  json.Key("choices").BeginArray();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    RenderChoice(&json, options, static_cast<std::int32_t>(i), choices[i], prompts[choices[i].prompt]);
  }
  json.EndArray();
  RenderUsage(&json.Key("usage"), summary.usage);
  if (chat && options.return_token_ids) RenderIds(&json.Key("prompt_token_ids"), prompts[0].tokens);
  RenderTimingsAndTimelines(&json, summary);
  json.EndObject();
  return out;
}

ChunkRenderer::ChunkRenderer(const AnswerOptions& options, const AnswerIdentity& identity)
    : options_(options) {
  JsonWriter json(&prefix_);
  json.BeginObject();
  RenderIdentity(&json, identity, options.api == Api::kChat ? "chat.completion.chunk" : "text_completion");
  json.Key("choices").BeginArray();
}

bool ChunkRenderer::Shows(const ChoiceDelta& delta) const {
  if (!delta.text.empty()) return true;
  if (options_.return_token_ids) return !delta.tokens.empty();
  return options_.logprobs && !ScoredTokens(options_, delta.tokens).empty();
}

JsonWriter ChunkRenderer::Open(std::string* out, std::int32_t choice) const {
  out->reserve(prefix_.size() + 160);
  *out = prefix_;
  JsonWriter json(out);
  json.BeginObject().Field("index", choice);
  return json;
}

void ChunkRenderer::Close(JsonWriter* json, const PromptEcho* chat_prompt, const Usage* usage,
                          const Summary* summary) const {
  json->EndObject().EndArray();
  if (chat_prompt != nullptr && options_.return_token_ids) {
    RenderIds(&json->Key("prompt_token_ids"), chat_prompt->tokens);
  }
  if (options_.continuous_usage && usage != nullptr) {
    RenderUsage(&json->Key("usage"), *usage);
  } else if (options_.include_usage) {
    json->Key("usage").Null();  // the last chunk has it
  }
  if (summary != nullptr) RenderTimingsAndTimelines(json, *summary);
  json->EndObject();
}

// Logprobs and token ids of a chunk. A completion's chunks have them even when empty, as vLLM's do.
void ChunkRenderer::RenderTokens(JsonWriter* json, std::span<const TokenPiece> tokens,
                                 const PromptEcho* first_of, ChoiceCursor* cursor) const {
  const bool chat = options_.api == Api::kChat;
  const std::span<const TokenPiece> scored = ScoredTokens(options_, tokens);
  json->Key("logprobs");
  if (!options_.logprobs || (chat && scored.empty())) {
    json->Null();
  } else if (chat) {
    RenderChatLogprobs(json, scored);
  } else {
    RenderCompletionLogprobs(json, scored, cursor->characters);
  }
  if (!options_.return_token_ids) return;
  if (!chat && first_of != nullptr) RenderIds(&json->Key("prompt_token_ids"), first_of->tokens);
  RenderIdsOf(&json->Key("token_ids"), tokens);
}

std::string ChunkRenderer::Role(std::int32_t choice, const PromptEcho& prompt) const {
  std::string out;
  JsonWriter json = Open(&out, choice);
  json.Key("delta").BeginObject().Field("role", "assistant").Field("content", "").EndObject();
  json.Key("logprobs").Null().Key("finish_reason").Null();
  const Usage usage{.prompt_tokens = static_cast<std::int32_t>(prompt.tokens.size())};
  Close(&json, &prompt, &usage, nullptr);
  return out;
}

std::string ChunkRenderer::Echo(std::int32_t choice, const PromptEcho& prompt, ChoiceCursor* cursor) const {
  const auto prompt_tokens = static_cast<std::int32_t>(prompt.tokens.size());
  return Delta(choice, {.choice = choice, .text = prompt.text, .tokens = {}}, &prompt, prompt_tokens, cursor);
}

std::string ChunkRenderer::Delta(std::int32_t choice, const ChoiceDelta& delta, const PromptEcho* first_of,
                                 std::int32_t prompt_tokens, ChoiceCursor* cursor) const {
  std::string out;
  JsonWriter json = Open(&out, choice);
  if (options_.api == Api::kChat) {
    json.Key("delta").BeginObject().Field("content", delta.text).EndObject();
  } else {
    json.Field("text", delta.text);
  }
  RenderTokens(&json, delta.tokens, first_of, cursor);
  json.Key("finish_reason").Null();
  if (options_.logprobs) cursor->characters += CountCharacters(delta.text);
  cursor->tokens += static_cast<std::int32_t>(delta.tokens.size());
  const Usage usage{.prompt_tokens = prompt_tokens, .completion_tokens = cursor->tokens};
  Close(&json, nullptr, &usage, nullptr);
  return out;
}

std::string ChunkRenderer::Finish(std::int32_t choice, const ChoiceFinish& finish, const PromptEcho* first_of,
                                  std::int32_t prompt_tokens, const ChoiceCursor& cursor,
                                  const Summary* summary) const {
  std::string out;
  JsonWriter json = Open(&out, choice);
  if (options_.api == Api::kChat) {
    json.Key("delta").BeginObject().EndObject();
  } else {
    json.Field("text", "");
  }
  ChoiceCursor end = cursor;
  RenderTokens(&json, {}, first_of, &end);
  RenderEnd(&json, finish.reason, finish.stop_string, finish.stop_token);
  const Usage usage{.prompt_tokens = prompt_tokens, .completion_tokens = finish.generated_tokens};
  Close(&json, nullptr, &usage, summary);
  return out;
}

std::string ChunkRenderer::UsageOnly(const Summary& summary) const {
  std::string out = prefix_;
  JsonWriter json(&out);
  json.EndArray();
  RenderUsage(&json.Key("usage"), summary.usage);
  RenderTimingsAndTimelines(&json, summary);
  json.EndObject();
  return out;
}

}  // namespace skipjack::http
