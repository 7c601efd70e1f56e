#include "serve/grpc/request_conversion.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "serve/json_checked.h"

namespace skipjack {
namespace {

// An empty text is an empty object.
Result<Json> ParseObject(const std::string& field, const std::string& text, JsonUse* use) {
  if (text.empty()) return Json::object();
  Result<Json> value = ParseJson(text, {}, use);
  if (!value.ok()) {
    return Status::InvalidArgument(
        fmt::format("{} must be a JSON object: {}", field, value.status().message()));
  }
  if (value->is_object()) return value;
  return Status::InvalidArgument(
      fmt::format("{} must be a JSON object, got {}", field, DescribeJson(*value)));
}

Result<Json> ToMessage(const v1::ChatMessage& message, int index, JsonUse* use) {
  Result<Json> json =
      ParseObject(fmt::format("chat.messages[{}].members_json", index), message.members_json(), use);
  if (!json.ok()) return json;
  (*json)["role"] = message.role();
  if (message.has_content()) (*json)["content"] = message.content();
  if (message.has_name()) (*json)["name"] = message.name();
  if (message.has_tool_call_id()) (*json)["tool_call_id"] = message.tool_call_id();
  return json;
}

// They have fields of their own, or are the model's.
constexpr std::array<std::string_view, 4> kReservedVariables = {"messages", "add_generation_prompt",
                                                                "bos_token", "eos_token"};

// One budget for all JSON in a chat; each message is an object too.
Result<Prompt> ToChatPrompt(const v1::ChatPrompt& chat) {
  const auto messages_sent = static_cast<std::size_t>(chat.messages_size());
  if (messages_sent > JsonLimits().containers) {
    return Status::InvalidArgument(fmt::format("chat.messages may have at most {} entries, got {}",
                                               JsonLimits().containers, messages_sent));
  }
  JsonUse use{.containers = messages_sent};
  Result<Json> variables = ParseObject("chat.variables_json", chat.variables_json(), &use);
  if (!variables.ok()) return variables.status();
  for (const std::string_view name : kReservedVariables) {
    if (variables->contains(name)) {
      return Status::InvalidArgument(fmt::format("chat.variables_json: {} cannot be set this way", name));
    }
  }
  Json messages = Json::array();
  for (int i = 0; i < chat.messages_size(); ++i) {
    Result<Json> message = ToMessage(chat.messages(i), i, &use);
    if (!message.ok()) return message.status();
    messages.push_back(*std::move(message));
  }
  const bool continues = variables->value("continue_final_message", Json()) == true;
  (*variables)["messages"] = std::move(messages);
  (*variables)["add_generation_prompt"] =
      chat.has_add_generation_prompt() ? chat.add_generation_prompt() : !continues;
  return Prompt(ChatPrompt{*std::move(variables)});
}

Result<Prompt> TakePrompt(v1::GenerateRequest* message) {
  switch (message->prompt_case()) {
    case v1::GenerateRequest::kText:
      return Prompt(std::move(*message->mutable_text()));
    case v1::GenerateRequest::kTokenIds: {
      const auto& ids = message->token_ids().ids();
      return Prompt(std::vector<TokenId>(ids.begin(), ids.end()));
    }
    case v1::GenerateRequest::kChat:
      return ToChatPrompt(message->chat());
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return Status::InvalidArgument("prompt: one of text, token_ids and chat must be set");
}

Result<PriorityClass> ToPriority(int priority) {
  switch (priority) {
    case v1::PRIORITY_CLASS_REALTIME:
      return PriorityClass::kRealtime;
    case v1::PRIORITY_CLASS_UNSPECIFIED:
    case v1::PRIORITY_CLASS_INTERACTIVE:
      return PriorityClass::kInteractive;
    case v1::PRIORITY_CLASS_BATCH:
      return PriorityClass::kBatch;
    default:
      return Status::InvalidArgument(fmt::format("priority must lie in [0, 3], got {}", priority));
  }
}

void TakeSampling(const v1::SamplingParams& from, CompletionRequest* to) {
  if (from.has_temperature()) to->temperature = from.temperature();
  if (from.has_top_k()) to->top_k = from.top_k();
  if (from.has_top_p()) to->top_p = from.top_p();
  if (from.has_min_p()) to->min_p = from.min_p();
  if (from.has_typical_p()) to->typical_p = from.typical_p();
  if (from.has_repetition_penalty()) to->repetition_penalty = from.repetition_penalty();
  if (from.has_presence_penalty()) to->presence_penalty = from.presence_penalty();
  if (from.has_frequency_penalty()) to->frequency_penalty = from.frequency_penalty();
  for (const v1::LogitBias& bias : from.logit_bias()) to->logit_bias.emplace_back(bias.token(), bias.bias());
  if (from.has_seed()) to->seed = from.seed();
  if (from.has_max_tokens()) to->max_tokens = from.max_tokens();
  if (from.has_min_tokens()) to->min_tokens = from.min_tokens();
  to->ignore_eos = from.ignore_eos();
  if (from.has_end_after_tokens()) to->end_after_tokens = from.end_after_tokens();
  to->stop.assign(from.stop().begin(), from.stop().end());
  to->stop_token_ids.assign(from.stop_token_ids().begin(), from.stop_token_ids().end());
  to->include_stop_string = from.include_stop_string();
  if (from.has_skip_special_tokens()) to->skip_special_tokens = from.skip_special_tokens();
  if (from.has_n()) to->n = from.n();
  if (from.has_top_logprobs()) to->top_logprobs = from.top_logprobs();
}

}  // namespace

Result<CompletionRequest> ToCompletionRequest(v1::GenerateRequest* message) {
  CompletionRequest request;
  request.model = message->model();
  const bool chat = message->has_chat();
  Result<Prompt> prompt = TakePrompt(message);
  message->clear_prompt();
  if (!prompt.ok()) return prompt.status();
  request.prompt = *std::move(prompt);
  request.add_special_tokens =
      message->has_add_special_tokens() ? message->add_special_tokens() : AddsSpecialTokens(chat);
  TakeSampling(message->sampling(), &request);
  request.tenant = message->tenant();
  request.cache_salt = message->cache_salt();
  request.timeline = message->return_timeline();
  const Result<PriorityClass> priority = ToPriority(message->priority());
  if (!priority.ok()) return priority.status();
  request.priority = *priority;
  if (message->has_timeout()) request.timeout = ToDuration(message->timeout());
  return request;
}

bool AddsSpecialTokens(bool chat) {
  return !chat;
}

Result<Prompt> ToPrompt(const v1::TokenizeRequest& message) {
  switch (message.prompt_case()) {
    case v1::TokenizeRequest::kText:
      return Prompt(message.text());
    case v1::TokenizeRequest::kChat:
      return ToChatPrompt(message.chat());
    case v1::TokenizeRequest::PROMPT_NOT_SET:
      break;
  }
  return Status::InvalidArgument("prompt: one of text and chat must be set");
}

Duration ToDuration(const google::protobuf::Duration& message) {
  constexpr std::int64_t kNanos = 1'000'000'000;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / kNanos - 1;
  if (message.seconds() > kMost) return Duration::max();
  if (message.seconds() < -kMost) return Duration::min();
  return Duration(message.seconds() * kNanos + message.nanos());
}

google::protobuf::Duration ToProto(Duration duration) {
  google::protobuf::Duration message;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  message.set_seconds(seconds.count());
  message.set_nanos(static_cast<std::int32_t>((duration - seconds).count()));
  return message;
}

}  // namespace skipjack
