#include "serve/chat_messages.h"

#include <cstddef>
#include <string>
#include <utility>

namespace skipjack {
namespace {

// Levels around the arguments of a call: variables, messages, message, tool_calls, call, function.
constexpr int kLevelsAroundArguments = 6;

std::string Indexed(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

Status Wrong(const std::string& path, const std::string& what) {
  return Status::InvalidArgument(path + " " + what);
}

// The member of that name where it is a string, or nullptr.
const std::string* StringMember(const Json& object, const char* name) {
  const auto member = object.find(name);
  return member == object.end() || !member->is_string() ? nullptr : &member->get_ref<const std::string&>();
}

Status CheckTextPart(const Json& part, const std::string& path) {
  if (!part.is_object())
    return Wrong(path, "must be an object with type and text, got " + DescribeJson(part));
  const std::string* type = StringMember(part, "type");
  if (type == nullptr || *type != "text") {
    return Wrong(path + ".type", "must be \"text\": other kinds of content are not supported" +
                                     (type ? ", got " + DescribeJson(*type) : std::string()));
  }
  if (StringMember(part, "text") == nullptr) return Wrong(path + ".text", "must be a string");
  return {};
}

// Most templates know the text of a message as one string only.
Status JoinTextParts(const std::string& path, Json* content) {
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const Json& part = (*content)[i];
    if (Status s = CheckTextPart(part, Indexed(path, i)); !s.ok()) return s;
    if (i > 0) text += '\n';
    text += *StringMember(part, "text");
  }
  *content = std::move(text);
  return {};
}

// OpenAI sends the arguments as a string of JSON, templates want to walk through them.
Status ExpandArguments(const std::string& path, JsonUse* use, Json* function) {
  const std::string* text = StringMember(*function, "arguments");
  if (text == nullptr) return {};
  const JsonLimits limits{.depth = kMaxChatNesting - kLevelsAroundArguments};
  Result<Json> parsed = text->empty() ? Result<Json>(Json::object()) : ParseJson(*text, limits, use);
  if (!parsed.ok()) return Wrong(path, "is not acceptable JSON: " + parsed.status().message());
  if (!parsed->is_object()) return Wrong(path, "must hold a JSON object, got " + DescribeJson(*parsed));
  (*function)["arguments"] = *std::move(parsed);
  return {};
}

Status ExpandToolCalls(const std::string& path, JsonUse* use, Json* calls) {
  if (!calls->is_array()) return Wrong(path, "must be an array, got " + DescribeJson(*calls));
  for (std::size_t i = 0; i < calls->size(); ++i) {
    Json& call = (*calls)[i];
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (function == call.end() || !function->is_object()) {
      return Wrong(Indexed(path, i), "must be an object with a function object");
    }
    if (Status s = ExpandArguments(Indexed(path, i) + ".function.arguments", use, &*function); !s.ok())
      return s;
  }
  return {};
}

Status NormalizeContent(const std::string& path, bool required, Json* message) {
  const auto content = message->find("content");
  if (content == message->end() || content->is_null()) {
    return required ? Wrong(path, "is required") : Status();
  }
  if (content->is_array()) return JoinTextParts(path, &*content);
  if (content->is_string()) return {};
  return Wrong(path, "must be a string or an array of text parts, got " + DescribeJson(*content));
}

Status NormalizeMessage(const std::string& path, JsonUse* use, Json* message) {
  if (!message->is_object()) return Wrong(path, "must be an object, got " + DescribeJson(*message));
  const std::string* role = StringMember(*message, "role");
  if (role == nullptr || role->empty()) return Wrong(path + ".role", "must be a string that is not empty");
  const bool by_assistant = *role == "assistant";
  if (*role == "developer") (*message)["role"] = "system";
  if (const auto calls = message->find("tool_calls"); calls != message->end() && !calls->is_null()) {
    if (Status s = ExpandToolCalls(path + ".tool_calls", use, &*calls); !s.ok()) return s;
  }
  return NormalizeContent(path + ".content", !by_assistant, message);
}

}  // namespace

Status NormalizeMessages(Json* messages) {
  if (!messages->is_array()) return Wrong("messages", "must be a list, got " + DescribeJson(*messages));
  if (messages->empty()) return Wrong("messages", "must have at least one entry");
  JsonUse use;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    if (Status s = NormalizeMessage(Indexed("messages", i), &use, &(*messages)[i]); !s.ok()) return s;
  }
  return {};
}

}  // namespace skipjack
