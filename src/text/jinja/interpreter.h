// Walks a parsed template. One object per rendering; not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace skipjack::jinja {

class Interpreter {
 public:
  Interpreter(const TemplateLimits& limits, const ChatTemplateContext& context);

  void Define(const std::string& name, Value value);
  Text Render(const Block& block);

  // Counts work: one step a node, one per 64 bytes copied. Throws ResourceExhausted beyond the limit.
  void Charge(std::size_t steps);
  void ChargeBytes(std::size_t bytes);

  Value CallFunction(const Value& function, const Arguments& arguments);
  Value ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments);
  bool ApplyTest(const std::string& name, const Value& input, const Arguments& arguments);
  // `object.name`: undefined when there is none.
  Value Attribute(const Value& object, const std::string& name);
  Value Subscript(const Value& object, const Value& key);
  // The items a loop sees: of a list, the keys of a mapping, the characters of a string.
  List Items(const Value& value);
  Value Contains(const Value& needle, const Value& haystack);

  std::int64_t unix_seconds() const { return context_.unix_seconds; }

 private:
  enum class Flow : std::uint8_t { kNext, kBreak, kContinue };
  using Scope = std::vector<std::pair<std::string, Value>>;

  // Adds a scope while it lives.
  class ScopeGuard;
  // Redirects output while it lives.
  class OutputGuard;

  Flow Execute(const Block& block);
  Flow Execute(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  Flow ExecuteLoopBody(const Statement& statement, const List& items);
  void ExecuteSet(const Statement& statement);
  void ExecuteCallBlock(const Statement& statement);
  void Assign(const std::vector<std::string>& targets, const Value& value);
  void Write(const Text& text);
  Text Capture(const Block& block);
  Value MakeMacro(const std::string& name, const std::vector<Parameter>& parameters, const Block& body);
  Value RunMacro(const std::vector<Parameter>& parameters, const Block& body, const Arguments& arguments);

  Value RunBlock(const std::vector<Parameter>& parameters, const Block& body, const Arguments& arguments);

  Value Evaluate(const Expression& expression);
  Value EvaluateName(const std::string& name);
  Value EvaluateCompare(const Expression& expression);
  Value EvaluateBinary(const Expression& expression);
  Value EvaluateSlice(const Expression& expression);
  Value EvaluateCall(const Expression& expression);
  Arguments EvaluateArguments(const Expression& expression);

  void SetLocal(const std::string& name, Value value);
  const Value* Find(const std::string& name) const;
  [[noreturn]] static void Undefined(const Value& value);

  TemplateLimits limits_;
  ChatTemplateContext context_;
  std::int64_t steps_ = 0;
  int depth_ = 0;
  std::vector<Scope> scopes_;
  std::vector<Text> outputs_;
};

// Arithmetic with Python's rules; Failure on overflow, division by zero and types that do not go together.
Value Arithmetic(const std::string& op, const Value& a, const Value& b, std::size_t max_bytes);

// Methods of strings, lists and mappings; false when `object` has no such method.
bool CallMethod(Interpreter& interpreter, const Value& object, const std::string& name,
                const Arguments& arguments, Value* result);
bool HasMethod(const Value& object, std::string_view name);

// range, namespace, dict, raise_exception, strftime_now, joiner, cycler.
void DefineGlobals(Interpreter* interpreter);

}  // namespace skipjack::jinja
