#include "text/jinja/interpreter.h"

#include <algorithm>

namespace skipjack::jinja {

class Interpreter::ScopeGuard {
 public:
  explicit ScopeGuard(Interpreter* interpreter) : interpreter_(interpreter) {
    interpreter_->scopes_.emplace_back();
    if (++interpreter_->depth_ > interpreter_->limits_.nesting) {
      throw Failure(Status::ResourceExhausted("the chat template calls itself too deeply"));
    }
  }
  ~ScopeGuard() {
    interpreter_->scopes_.pop_back();
    --interpreter_->depth_;
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Interpreter* interpreter_;
};

class Interpreter::OutputGuard {
 public:
  explicit OutputGuard(Interpreter* interpreter) : interpreter_(interpreter) {
    interpreter_->outputs_.emplace_back();
  }
  ~OutputGuard() { interpreter_->outputs_.pop_back(); }
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;

  Text Take() { return std::move(interpreter_->outputs_.back()); }

 private:
  Interpreter* interpreter_;
};

Interpreter::Interpreter(const TemplateLimits& limits, const ChatTemplateContext& context)
    : limits_(limits), context_(context) {
  scopes_.emplace_back();
  DefineGlobals(this);
  scopes_.emplace_back();
}

void Interpreter::Define(const std::string& name, Value value) {
  SetLocal(name, std::move(value));
}

Text Interpreter::Render(const Block& block) {
  return Capture(block);
}

void Interpreter::Charge(std::size_t steps) {
  steps_ += static_cast<std::int64_t>(steps);
  if (steps_ > limits_.steps) {
    throw Failure(Status::ResourceExhausted("the chat template took more than " +
                                            std::to_string(limits_.steps) + " steps"));
  }
}

void Interpreter::ChargeBytes(std::size_t bytes) {
  if (bytes > limits_.output_bytes) {
    throw Failure(Status::ResourceExhausted("the chat template made a text of more than " +
                                            std::to_string(limits_.output_bytes) + " bytes"));
  }
  Charge(bytes / 64);
}

void Interpreter::Write(const Text& text) {
  ChargeBytes(outputs_.back().size() + text.size() > limits_.output_bytes ? limits_.output_bytes + 1
                                                                          : text.size());
  outputs_.back().Append(text);
}

Text Interpreter::Capture(const Block& block) {
  OutputGuard output(this);
  Execute(block);
  return output.Take();
}

void Interpreter::SetLocal(const std::string& name, Value value) {
  for (auto& [key, existing] : scopes_.back()) {
    if (key != name) continue;
    existing = std::move(value);
    return;
  }
  scopes_.back().emplace_back(name, std::move(value));
}

const Value* Interpreter::Find(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    for (const auto& [key, value] : *scope) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

Interpreter::Flow Interpreter::Execute(const Block& block) {
  for (const auto& statement : block) {
    if (const Flow flow = Execute(*statement); flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::Execute(const Statement& statement) {
  Charge(1);
  switch (statement.kind) {
    case StatementKind::kText:
      Write(statement.text);
      return Flow::kNext;
    case StatementKind::kOutput:
      Write(ToText(Evaluate(*statement.value)));
      return Flow::kNext;
    case StatementKind::kIf:
      return Execute(Evaluate(*statement.value).Truthy() ? statement.body : statement.else_body);
    case StatementKind::kFor:
      return ExecuteFor(statement);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kSet:
      ExecuteSet(statement);
      return Flow::kNext;
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock: {
      Value content(Capture(statement.body));
      if (statement.filter) {
        const ScopeGuard scope(this);
        SetLocal(kBlockContent, std::move(content));
        content = Evaluate(*statement.filter);
      }
      if (statement.kind == StatementKind::kFilterBlock) {
        Write(ToText(content));
      } else {
        SetLocal(statement.targets[0], std::move(content));
      }
      return Flow::kNext;
    }
    case StatementKind::kMacro:
      SetLocal(statement.name, MakeMacro(statement.name, statement.parameters, statement.body));
      return Flow::kNext;
    case StatementKind::kCallBlock:
      ExecuteCallBlock(statement);
      return Flow::kNext;
    case StatementKind::kWith: {
      std::vector<Value> values;
      for (const Parameter& parameter : statement.parameters)
        values.push_back(Evaluate(*parameter.default_value));
      const ScopeGuard scope(this);
      for (std::size_t i = 0; i < values.size(); ++i)
        SetLocal(statement.parameters[i].name, std::move(values[i]));
      return Execute(statement.body);
    }
    case StatementKind::kScope: {
      const ScopeGuard scope(this);
      return Execute(statement.body);
    }
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  List items = Items(Evaluate(*statement.value));
  if (statement.condition) {
    List kept;
    for (Value& item : items) {
      const ScopeGuard scope(this);
      Assign(statement.targets, item);
      if (Evaluate(*statement.condition).Truthy()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) {
    const ScopeGuard scope(this);
    return Execute(statement.else_body);
  }
  return ExecuteLoopBody(statement, items);
}

Interpreter::Flow Interpreter::ExecuteLoopBody(const Statement& statement, const List& items) {
  const auto text = [](const char* name) { return Value::MakeText(name, true); };
  const auto number = [](std::size_t value) { return Value(static_cast<std::int64_t>(value)); };
  const std::size_t count = items.size();
  for (std::size_t i = 0; i < count; ++i) {
    Charge(1);
    const ScopeGuard scope(this);
    Dict loop;
    loop.entries = {
        {text("index"), number(i + 1)},
        {text("index0"), number(i)},
        {text("first"), Value(i == 0)},
        {text("last"), Value(i + 1 == count)},
        {text("length"), number(count)},
        {text("revindex"), number(count - i)},
        {text("revindex0"), number(count - i - 1)},
        {text("depth"), number(1)},
        {text("depth0"), number(0)},
        {text("previtem"), i > 0 ? items[i - 1] : Value::MakeUndefined("loop.previtem")},
        {text("nextitem"), i + 1 < count ? items[i + 1] : Value::MakeUndefined("loop.nextitem")},
        {text("cycle"), Value::MakeFunction("cycle",
                                            [i](Interpreter&, const Arguments& arguments) {
                                              if (arguments.positional.empty()) {
                                                throw Failure("loop.cycle needs at least one value");
                                              }
                                              return arguments.positional[i % arguments.positional.size()];
                                            })},
    };
    SetLocal("loop", Value::MakeNamespace(std::move(loop)));
    Assign(statement.targets, items[i]);
    if (Execute(statement.body) == Flow::kBreak) break;
  }
  return Flow::kNext;
}

void Interpreter::Assign(const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) {
    SetLocal(targets[0], value);
    return;
  }
  const List parts = Items(value);
  if (parts.size() != targets.size()) {
    throw Failure("cannot unpack " + std::to_string(parts.size()) + " values into " +
                  std::to_string(targets.size()) + " names");
  }
  for (std::size_t i = 0; i < targets.size(); ++i) SetLocal(targets[i], parts[i]);
}

void Interpreter::ExecuteSet(const Statement& statement) {
  Value value = Evaluate(*statement.value);
  if (statement.object_name.empty()) {
    Assign(statement.targets, value);
    return;
  }
  const Value object = EvaluateName(statement.object_name);
  if (!object.is_namespace())
    throw Failure("'" + statement.object_name + "' is no namespace, so nothing in it can be set");
  object.attributes().Set(Value::MakeText(statement.targets[0], true), std::move(value));
}

Value Interpreter::MakeMacro(const std::string& name, const std::vector<Parameter>& parameters,
                             const Block& body) {
  // The tree outlives every rendering, so its parts may be referred to.
  return Value::MakeFunction(name,
                             [&parameters, &body](Interpreter& interpreter, const Arguments& arguments) {
                               return interpreter.RunMacro(parameters, body, arguments);
                             });
}

// A macro sees its parameters and the template's globals, not its caller's names.
Value Interpreter::RunMacro(const std::vector<Parameter>& parameters, const Block& body,
                            const Arguments& arguments) {
  std::vector<Scope> callers(std::make_move_iterator(scopes_.begin() + 2),
                             std::make_move_iterator(scopes_.end()));
  scopes_.resize(2);
  struct Restore {
    std::vector<Scope>* scopes;
    std::vector<Scope>* callers;
    ~Restore() { std::move(callers->begin(), callers->end(), std::back_inserter(*scopes)); }
  } restore{&scopes_, &callers};
  return RunBlock(parameters, body, arguments);
}

Value Interpreter::RunBlock(const std::vector<Parameter>& parameters, const Block& body,
                            const Arguments& arguments) {
  if (arguments.positional.size() > parameters.size()) throw Failure("a macro got too many arguments");
  const ScopeGuard scope(this);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (const Value* given = arguments.Find(i, parameter.name)) {
      SetLocal(parameter.name, *given);
    } else if (parameter.default_value) {
      SetLocal(parameter.name, Evaluate(*parameter.default_value));
    } else {
      SetLocal(parameter.name, Value::MakeUndefined(parameter.name));
    }
  }
  if (const Value* caller = arguments.Find(parameters.size(), "caller")) SetLocal("caller", *caller);
  return Value(Capture(body));
}

void Interpreter::ExecuteCallBlock(const Statement& statement) {
  const Value function = Evaluate(*statement.value->operands[0]);
  Arguments arguments = EvaluateArguments(*statement.value);
  // Unlike a macro, the block sees the names around it.
  auto around = std::make_shared<const std::vector<Scope>>(scopes_);
  arguments.named.emplace_back(
      "caller",
      Value::MakeFunction("caller", [around, &statement](Interpreter& self, const Arguments& given) {
        std::vector<Scope> scopes = *around;
        scopes.swap(self.scopes_);
        Value result = self.RunBlock(statement.parameters, statement.body, given);
        scopes.swap(self.scopes_);
        return result;
      }));
  Write(ToText(CallFunction(function, arguments)));
}

List Interpreter::Items(const Value& value) {
  List items;
  if (value.is_list()) {
    items = value.list();
  } else if (value.is_dict()) {
    for (const Pair& entry : value.dict().entries) items.push_back(entry.first);
  } else if (value.is_text()) {
    const Text& text = value.text();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = CodePointBytes(text.bytes(), at);
      items.push_back(Value(text.Substring(at, bytes)));
      at += bytes;
    }
  } else if (!value.is_undefined()) {
    throw Failure(std::string("a ") + value.TypeName() + " cannot be looped over");
  }
  Charge(items.size() / 8);
  return items;
}

Value Interpreter::CallFunction(const Value& function, const Arguments& arguments) {
  if (function.is_undefined()) Undefined(function);
  if (!function.is_callable()) throw Failure(std::string("a ") + function.TypeName() + " cannot be called");
  return (*function.callable().function)(*this, arguments);
}

}  // namespace skipjack::jinja
