#include "serve/http/chat_parse.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace skipjack::http {
namespace {

std::string Indexed(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

// An array of text parts as one string.
std::string JoinTextParts(Json* parts, const std::string& path, FieldReader* reader) {
  std::string text;
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const std::string part_path = Indexed(path, i);
    Json& part = (*parts)[i];
    if (!part.is_object()) {
      reader->Fail(part_path, "must be an object with type and text, got " + DescribeJson(part));
      return "";
    }
    FieldReader fields(&part, part_path + ".");
    const std::optional<std::string> type = fields.String("type");
    if (fields.ok() && type != "text") {
      fields.Fail("type", "must be \"text\": other kinds of content are not supported" +
                              (type ? ", got " + DescribeJson(*type) : std::string()));
    }
    const std::optional<std::string> piece = fields.String("text");
    if (!piece) fields.Fail("text", "must be a string");
    reader->Adopt(fields);
    if (!reader->ok()) return "";
    if (i > 0) text += '\n';
    text += *piece;
  }
  return text;
}

// OpenAI sends the arguments as a string of JSON, templates want to walk through them.
void ExpandToolCalls(Json* calls, const std::string& path, const JsonLimits& limits, FieldReader* reader) {
  if (!calls->is_array()) return reader->Fail(path, "must be an array, got " + DescribeJson(*calls));
  for (std::size_t i = 0; i < calls->size(); ++i) {
    Json& call = (*calls)[i];
    const bool well_formed = call.is_object() && call.contains("function") && call["function"].is_object();
    if (!well_formed) return reader->Fail(Indexed(path, i), "must be an object with a function object");
    Json& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    const std::string& text = arguments->get_ref<const std::string&>();
    Result<Json> parsed = text.empty() ? Result<Json>(Json::object()) : ParseJson(text, limits);
    if (!parsed.ok() || !parsed->is_object()) {
      return reader->Fail(Indexed(path, i) + ".function.arguments", "must hold a JSON object");
    }
    *arguments = *std::move(parsed);
  }
}

void NormalizeMessage(Json* message, const std::string& path, const JsonLimits& limits, FieldReader* reader) {
  if (!message->is_object()) return reader->Fail(path, "must be an object, got " + DescribeJson(*message));
  const auto role = message->find("role");
  if (role == message->end() || !role->is_string() || role->get_ref<const std::string&>().empty()) {
    return reader->Fail(path + ".role", "must be a string that is not empty");
  }
  if (*role == "developer") *role = "system";

  if (const auto calls = message->find("tool_calls"); calls != message->end() && !calls->is_null()) {
    ExpandToolCalls(&*calls, path + ".tool_calls", limits, reader);
  }
  const auto content = message->find("content");
  if (content == message->end() || content->is_null()) {
    if (*role == "assistant") return;
    return reader->Fail(path + ".content", "is required");
  }
  if (content->is_array()) {
    *content = JoinTextParts(&*content, path + ".content", reader);
  } else if (!content->is_string()) {
    reader->Fail(path + ".content",
                 "must be a string or an array of text parts, got " + DescribeJson(*content));
  }
}

Json ReadMessages(FieldReader* reader, const JsonLimits& limits) {
  Json* messages = reader->Array("messages");
  if (messages == nullptr || messages->empty()) {
    reader->Fail("messages", "must hold at least one message");
    return Json::array();
  }
  for (std::size_t i = 0; i < messages->size() && reader->ok(); ++i) {
    NormalizeMessage(&(*messages)[i], Indexed("messages", i), limits, reader);
  }
  return std::move(*messages);
}

// Null without tools, or with a tool_choice of "none": a model that may not call tools is not shown any.
Json ReadTools(FieldReader* reader) {
  Json* tools = reader->Array("tools");
  const Json* choice = reader->Value("tool_choice");
  if (tools != nullptr) {
    for (std::size_t i = 0; i < tools->size(); ++i) {
      const Json& tool = (*tools)[i];
      const bool well_formed = tool.is_object() && tool.value("type", Json()) == "function" &&
                               tool.contains("function") && tool["function"].is_object() &&
                               tool["function"].value("name", Json()).is_string();
      if (!well_formed)
        reader->Fail(Indexed("tools", i), "must be {\"type\": \"function\", \"function\": {\"name\", ...}}");
    }
  }
  if (choice != nullptr && *choice != "none" && *choice != "auto") {
    reader->Fail("tool_choice", choice->is_object() || *choice == "required"
                                    ? "must be \"none\" or \"auto\": forcing a call is not supported"
                                    : "must be \"none\" or \"auto\", got " + DescribeJson(*choice));
  }
  if (tools == nullptr || tools->empty() || (choice != nullptr && *choice == "none")) return nullptr;
  return std::move(*tools);
}

// bos_token and eos_token among them would become trusted text.
constexpr std::array<std::string_view, 7> kReservedVariables = {
    "messages",  "tools",    "documents", "add_generation_prompt", "continue_final_message",
    "bos_token", "eos_token"};

void ReadTemplateArguments(FieldReader* reader, Json* variables) {
  Json* arguments = reader->Object("chat_template_kwargs");
  if (arguments == nullptr) return;
  for (auto& [name, value] : arguments->items()) {
    if (std::find(kReservedVariables.begin(), kReservedVariables.end(), name) != kReservedVariables.end()) {
      reader->Fail("chat_template_kwargs." + name, "cannot be set this way");
      return;
    }
    (*variables)[name] = std::move(value);
  }
}

}  // namespace

ChatPrompt ReadChatPrompt(FieldReader* reader, const JsonLimits& limits) {
  Json variables = Json::object();
  variables["messages"] = ReadMessages(reader, limits);
  variables["tools"] = ReadTools(reader);
  Json* documents = reader->Array("documents");
  variables["documents"] = documents == nullptr ? Json() : std::move(*documents);
  if (std::optional<std::string> effort = reader->String("reasoning_effort")) {
    variables["reasoning_effort"] = std::move(*effort);
  }
  const bool continues = reader->BoolOr("continue_final_message", false);
  const std::optional<bool> add_prompt = reader->Bool("add_generation_prompt");
  if (continues && add_prompt.value_or(false)) {
    reader->Fail("continue_final_message", "excludes add_generation_prompt");
  }
  variables["add_generation_prompt"] = add_prompt.value_or(!continues);
  if (continues) variables["continue_final_message"] = true;
  ReadTemplateArguments(reader, &variables);
  return {std::move(variables)};
}

}  // namespace skipjack::http
