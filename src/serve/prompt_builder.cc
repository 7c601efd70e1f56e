#include "serve/prompt_builder.h"

#include <fmt/format.h>

#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "serve/chat_messages.h"
#include "serve/continue_message.h"
#include "serve/json_checked.h"

namespace skipjack {
namespace {

std::int64_t UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

Status NoChatTemplate(const ServedModel& model) {
  if (!model.chat_template_error.ok()) {
    return Status::InvalidArgument(fmt::format("the chat template of model '{}' cannot be used: {}",
                                               model.name, model.chat_template_error.message()));
  }
  return Status::InvalidArgument(fmt::format(
      "model '{}' has no chat template: send a text prompt, or configure chat_template", model.name));
}

// Iterative, as everything must be that comes before this check.
bool NestedWithin(const Json& value, int limit) {
  std::vector<std::pair<const Json*, int>> open{{&value, 1}};
  while (!open.empty()) {
    const auto [node, depth] = open.back();
    open.pop_back();
    if (!node->is_structured()) continue;
    if (depth > limit) return false;
    for (const Json& child : *node) open.emplace_back(&child, depth + 1);
  }
  return true;
}

bool ContinuesFinalMessage(const Json& variables) {
  const auto flag = variables.find("continue_final_message");
  return flag != variables.end() && *flag == true;
}

Result<std::vector<Segment>> CutChat(const Json& variables, std::vector<Segment> segments) {
  const Json& last = variables["messages"].back();
  const std::string content = last.contains("content") && last["content"].is_string() ? last["content"] : "";
  if (Status s = CutAfterFinalMessage(content, &segments); !s.ok()) return s;
  return segments;
}

// The variables as the template gets to see them.
Result<Json> ChatVariables(const ChatPrompt& chat) {
  const Json& sent = chat.variables;
  if (!NestedWithin(sent, kMaxChatNesting)) {
    return Status::InvalidArgument(
        fmt::format("the chat request is nested more than {} levels deep", kMaxChatNesting));
  }
  if (!sent.is_object()) return Status::InvalidArgument("the chat's template variables must be an object");
  if (sent.size() > kMaxTemplateVariables) {
    return Status::InvalidArgument(
        fmt::format("a chat may have at most {} template variables, messages and tools included, got {}",
                    kMaxTemplateVariables, sent.size()));
  }
  Json variables = sent;
  if (Status s = NormalizeMessages(&variables["messages"]); !s.ok()) return s;
  // Templates ask whether these are none, and take what is not defined for something.
  variables.emplace("documents", nullptr);
  Json& tools = *variables.emplace("tools", nullptr).first;
  if (tools.is_array() && tools.empty()) tools = nullptr;
  return variables;
}

Result<std::vector<Segment>> RenderChat(const ServedModel& model, const ChatPrompt& chat) {
  if (!model.chat_template) return NoChatTemplate(model);
  const Result<Json> checked = ChatVariables(chat);
  if (!checked.ok()) return checked.status();
  const Json& variables = *checked;
  Result<std::vector<Segment>> segments = model.chat_template->Render(
      variables, {.bos_token = model.bos_token, .eos_token = model.eos_token, .unix_seconds = UnixSeconds()});
  if (segments.ok())
    return ContinuesFinalMessage(variables) ? CutChat(variables, *std::move(segments)) : segments;
  // Whatever the template objects to, these messages cannot be rendered with it: the request's fault.
  return Status::InvalidArgument("the chat template refused the messages: " + segments.status().message());
}

// Tokenising what is much too long would take a worker's time for nothing.
Status CheckLength(const ServedModel& model, std::span<const Segment> segments, std::int32_t context_length) {
  if (context_length <= 0) return {};
  const std::size_t least = model.tokenizer->MinimumTokens(segments);
  if (least < static_cast<std::size_t>(context_length)) return {};
  return Status::InvalidArgument(fmt::format(
      "the prompt has at least {} tokens, and the context of {} must also hold the output: at most {} are "
      "possible",
      least, context_length, context_length - 1));
}

Result<std::vector<TokenId>> EncodeSegments(const ServedModel& model, std::span<const Segment> segments,
                                            const PromptOptions& options) {
  if (Status s = CheckLength(model, segments, options.context_length); !s.ok()) return s;
  Result<std::vector<TokenId>> ids =
      model.tokenizer->Encode(segments, {.add_special = options.add_special_tokens});
  if (ids.ok() || ids.status().code() == StatusCode::kInvalidArgument) return ids;
  return Status::InvalidArgument("the prompt cannot be tokenised: " + ids.status().message());
}

}  // namespace

Result<std::vector<TokenId>> BuildPrompt(const ServedModel& model, const Prompt& prompt,
                                         const PromptOptions& options) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    const Segment segment{*text, options.parse_special};
    return EncodeSegments(model, {&segment, 1}, options);
  }
  const Result<std::vector<Segment>> segments = RenderChat(model, std::get<ChatPrompt>(prompt));
  if (!segments.ok()) return segments.status();
  return EncodeSegments(model, *segments, options);
}

std::size_t PromptBytes(const Prompt& prompt) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return ids->size() * sizeof(TokenId);
  if (const auto* text = std::get_if<std::string>(&prompt)) return text->size();
  std::size_t bytes = 0;
  std::vector<const Json*> open{&std::get<ChatPrompt>(prompt).variables};
  while (!open.empty()) {
    const Json& value = *open.back();
    open.pop_back();
    bytes += value.is_string() ? value.get_ref<const std::string&>().size() : sizeof(Json);
    if (value.is_structured()) {
      for (const Json& child : value) open.push_back(&child);
    }
  }
  return bytes;
}

}  // namespace skipjack
