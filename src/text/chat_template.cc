#include "text/chat_template.h"

#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace skipjack {
namespace {

class ParsedChatTemplate final : public ChatTemplate {
 public:
  ParsedChatTemplate(jinja::Block block, TemplateLimits limits) : block_(std::move(block)), limits_(limits) {}

  Result<std::vector<Segment>> Render(const nlohmann::ordered_json& variables,
                                      const ChatTemplateContext& context) const override {
    if (!variables.is_object())
      return Status::InvalidArgument("the chat template's variables must be an object");
    try {
      jinja::Interpreter interpreter(limits_, context);
      interpreter.Define("bos_token", jinja::Value::MakeText(context.bos_token, true));
      interpreter.Define("eos_token", jinja::Value::MakeText(context.eos_token, true));
      for (const auto& [name, value] : variables.items())
        interpreter.Define(name, jinja::Value::FromJson(interpreter.meter(), value));
      const jinja::Text text = interpreter.Render(block_);
      std::vector<Segment> segments;
      text.AppendTo(interpreter.meter(), &segments);
      return segments;
    } catch (const jinja::Failure& failure) {
      return failure.status();
    } catch (const std::bad_alloc&) {
      return Status::ResourceExhausted("there is not enough memory for rendering the chat template");
    }
  }

 private:
  jinja::Block block_;
  TemplateLimits limits_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::Parse(std::string_view source,
                                                                TemplateLimits limits) {
  if (source.size() > limits.source_bytes) {
    return Status::InvalidArgument("the chat template has " + std::to_string(source.size()) +
                                   " bytes; the limit is " + std::to_string(limits.source_bytes));
  }
  try {
    return std::shared_ptr<const ChatTemplate>(
        std::make_shared<ParsedChatTemplate>(jinja::ParseTemplate(source, limits.nesting), limits));
  } catch (const jinja::Failure& failure) {
    return failure.status();
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("there is not enough memory for reading the chat template");
  }
}

}  // namespace skipjack
