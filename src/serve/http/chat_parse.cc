#include "serve/http/chat_parse.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "serve/prompt_builder.h"

namespace skipjack::http {
namespace {

std::string Indexed(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

// What the messages hold is checked where they are rendered, for both protocols.
Json ReadMessages(FieldReader* reader) {
  Json* messages = reader->Array("messages");
  if (messages == nullptr || messages->empty()) {
    reader->Fail("messages", "must hold at least one message");
    return Json::array();
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
  // A search in an object is linear, so it matters how many there are.
  if (arguments->size() > kMaxTemplateVariables - variables->size()) {
    reader->Fail("chat_template_kwargs", "may have at most " +
                                             std::to_string(kMaxTemplateVariables - variables->size()) +
                                             " members, got " + std::to_string(arguments->size()));
    return;
  }
  for (auto& [name, value] : arguments->items()) {
    if (std::find(kReservedVariables.begin(), kReservedVariables.end(), name) != kReservedVariables.end()) {
      reader->Fail("chat_template_kwargs." + name, "cannot be set this way");
      return;
    }
    (*variables)[name] = std::move(value);
  }
}

}  // namespace

ChatPrompt ReadChatPrompt(FieldReader* reader) {
  Json variables = Json::object();
  variables["messages"] = ReadMessages(reader);
  if (Json tools = ReadTools(reader); !tools.is_null()) variables["tools"] = std::move(tools);
  if (Json* documents = reader->Array("documents")) variables["documents"] = std::move(*documents);
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
