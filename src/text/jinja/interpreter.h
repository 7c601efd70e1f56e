// Walks a parsed template. One object per rendering; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"
#include "text/jinja/ast.h"
#include "text/jinja/meter.h"
#include "text/jinja/value.h"

namespace skipjack::jinja {

class Interpreter {
 public:
  Interpreter(const TemplateLimits& limits, const ChatTemplateContext& context);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void Define(const std::string& name, Value value);
  Text Render(const Block& block);

  Meter& meter() { return meter_; }

  // namespace(): kept until the end, and emptied then, since it may hold itself.
  Value MakeNamespace(Dict attributes);
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
  using Scope = std::map<std::string, Value, std::less<>>;

  // Adds a scope while it lives.
  class ScopeGuard;
  class ScopesGuard;
  // Counts, while it lives, one level of Evaluate, Execute and ApplyFilter within each other.
  class StackGuard {
   public:
    explicit StackGuard(Interpreter* interpreter);
    ~StackGuard() { --interpreter_->stack_depth_; }
    StackGuard(const StackGuard&) = delete;
    StackGuard& operator=(const StackGuard&) = delete;

   private:
    Interpreter* interpreter_;
  };
  // Redirects output while it lives.
  class OutputGuard;

  Flow Execute(const Block& block);
  Flow Execute(const Statement& statement);
  Flow ExecuteFor(const Statement& statement);
  Flow ExecuteLoopBody(const Statement& statement, const List& items);
  Flow ExecuteWith(const Statement& statement);
  void ExecuteContentBlock(const Statement& statement);
  void ExecuteSet(const Statement& statement);
  void ExecuteCallBlock(const Statement& statement);
  void Assign(const std::vector<std::string>& targets, const Value& value);
  void Write(const Value& value);
  Text Capture(const Block& block);
  Value MakeMacro(const std::vector<Parameter>& parameters, const Block& body);
  Value MakeCaller(const Statement& statement);
  std::uint64_t ScopeBytes() const;
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
  Meter meter_;
  int depth_ = 0;  // of scopes
  int stack_depth_ = 0;
  std::vector<Scope> scopes_;
  std::vector<Text> outputs_;
  std::vector<std::shared_ptr<Dict>> namespaces_;
  // What call blocks saw around them, kept so that freeing one does not free a chain of earlier ones within
  // it.
  std::vector<std::shared_ptr<const std::vector<Scope>>> surroundings_;
};

// Arithmetic with Python's rules; Failure on overflow, division by zero and types that do not go together.
Value Arithmetic(Meter& meter, const std::string& op, const Value& a, const Value& b);

// Methods of strings, lists and mappings; false when `object` has no such method.
bool CallMethod(Interpreter& interpreter, const Value& object, const std::string& name,
                const Arguments& arguments, Value* result);
bool HasMethod(const Value& object, std::string_view name);

// range, namespace, dict, raise_exception, strftime_now, joiner, cycler.
void DefineGlobals(Interpreter* interpreter);

}  // namespace skipjack::jinja
