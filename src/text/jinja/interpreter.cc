#include "text/jinja/interpreter.h"

#include <iterator>

#include "text/jinja/loop_state.h"

namespace skipjack::jinja {
namespace {

// About what a variable takes in a scope.
constexpr std::uint64_t kVariableBytes = 128;

}  // namespace

class Interpreter::ScopeGuard {
 public:
  explicit ScopeGuard(Interpreter* interpreter) : interpreter_(interpreter) {
    if (interpreter_->depth_ >= interpreter_->limits_.nesting) {
      throw Failure(Status::ResourceExhausted("the chat template calls itself too deeply"));
    }
    interpreter_->scopes_.emplace_back();
    ++interpreter_->depth_;
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

// Swaps in other scopes while it lives.
class Interpreter::ScopesGuard {
 public:
  ScopesGuard(Interpreter* interpreter, std::vector<Scope>* scopes)
      : interpreter_(interpreter), scopes_(scopes) {
    interpreter_->scopes_.swap(*scopes_);
  }
  ~ScopesGuard() { interpreter_->scopes_.swap(*scopes_); }
  ScopesGuard(const ScopesGuard&) = delete;
  ScopesGuard& operator=(const ScopesGuard&) = delete;

 private:
  Interpreter* interpreter_;
  std::vector<Scope>* scopes_;
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

Interpreter::StackGuard::StackGuard(Interpreter* interpreter) : interpreter_(interpreter) {
  // Each level takes up to a kilobyte of the thread's stack.
  constexpr int kMaxStackDepth = 1000;
  if (interpreter_->stack_depth_ >= kMaxStackDepth) {
    throw Failure(Status::ResourceExhausted("the chat template nests its work too deeply"));
  }
  ++interpreter_->stack_depth_;
}

Interpreter::Interpreter(const TemplateLimits& limits, const ChatTemplateContext& context)
    : limits_(limits), context_(context), meter_(limits) {
  scopes_.emplace_back();
  DefineGlobals(this);
  scopes_.emplace_back();
}

// Namespaces may hold each other in rings, and call blocks' surroundings may hold earlier ones in long
// chains: the first are emptied while all of them live, the second go from the last to the first.
Interpreter::~Interpreter() {
  for (const std::shared_ptr<Dict>& attributes : namespaces_) attributes->entries.clear();
  scopes_.clear();
  while (!surroundings_.empty()) surroundings_.pop_back();
}

void Interpreter::Define(const std::string& name, Value value) {
  meter_.Step();
  meter_.Grow(kVariableBytes + name.size());
  SetLocal(name, std::move(value));
}

Text Interpreter::Render(const Block& block) {
  return Capture(block);
}

Value Interpreter::MakeNamespace(Dict attributes) {
  meter_.Grow(kVariableBytes);
  namespaces_.push_back(std::make_shared<Dict>(std::move(attributes)));
  return Value::MakeNamespace({.attributes = namespaces_.back()});
}

void Interpreter::Write(const Value& value) {
  AppendText(meter_, value, &outputs_.back());
}

Text Interpreter::Capture(const Block& block) {
  OutputGuard output(this);
  Execute(block);
  return output.Take();
}

void Interpreter::SetLocal(const std::string& name, Value value) {
  scopes_.back().insert_or_assign(name, std::move(value));
}

const Value* Interpreter::Find(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->find(name); found != scope->end()) return &found->second;
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
  const StackGuard stack(this);
  meter_.Step();
  switch (statement.kind) {
    case StatementKind::kText:
      outputs_.back().Append(meter_, statement.text);
      return Flow::kNext;
    case StatementKind::kOutput:
      Write(Evaluate(*statement.value));
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
    case StatementKind::kFilterBlock:
      ExecuteContentBlock(statement);
      return Flow::kNext;
    case StatementKind::kMacro:
      SetLocal(statement.name, MakeMacro(statement.parameters, statement.body));
      return Flow::kNext;
    case StatementKind::kCallBlock:
      ExecuteCallBlock(statement);
      return Flow::kNext;
    case StatementKind::kWith:
      return ExecuteWith(statement);
    case StatementKind::kScope: {
      const ScopeGuard scope(this);
      return Execute(statement.body);
    }
  }
  return Flow::kNext;
}

// A set block or a filter block: its body's text, through the filters.
void Interpreter::ExecuteContentBlock(const Statement& statement) {
  Value content(Capture(statement.body));
  if (statement.filter) {
    const ScopeGuard scope(this);
    SetLocal(kBlockContent, std::move(content));
    content = Evaluate(*statement.filter);
  }
  if (statement.kind == StatementKind::kFilterBlock) {
    Write(content);
  } else {
    SetLocal(statement.targets[0], std::move(content));
  }
}

Interpreter::Flow Interpreter::ExecuteWith(const Statement& statement) {
  std::vector<Value> values;
  for (const Parameter& parameter : statement.parameters)
    values.push_back(Evaluate(*parameter.default_value));
  const ScopeGuard scope(this);
  for (std::size_t i = 0; i < values.size(); ++i)
    SetLocal(statement.parameters[i].name, std::move(values[i]));
  return Execute(statement.body);
}

Interpreter::Flow Interpreter::ExecuteFor(const Statement& statement) {
  List items = Items(Evaluate(*statement.value));
  if (statement.condition) {
    List kept;
    for (Value& item : items) {
      const ScopeGuard scope(this);
      Assign(statement.targets, item);
      if (Evaluate(*statement.condition).Truthy()) Push(meter_, std::move(item), &kept);
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
  LoopState loop(meter_, items);
  const Value object = loop.Object();
  for (std::size_t i = 0; i < items.size(); ++i) {
    meter_.Step();
    const ScopeGuard scope(this);
    loop.BeginRound(i);
    SetLocal("loop", object);
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
  if (!object.is_namespace() || !object.writable())
    throw Failure("'" + statement.object_name + "' is no namespace, so nothing in it can be set");
  object.attributes().Set(meter_, Value::MakeText(statement.targets[0], true), std::move(value));
}

Value Interpreter::MakeMacro(const std::vector<Parameter>& parameters, const Block& body) {
  // The tree outlives every rendering, so its parts may be referred to.
  return Value::MakeFunction([&parameters, &body](Interpreter& interpreter, const Arguments& arguments) {
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
    meter_.Step(1 + arguments.named.size() / 4);  // they are searched for it
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

// Unlike a macro, a call block sees the names around it, as they are now.
Value Interpreter::MakeCaller(const Statement& statement) {
  const std::uint64_t bytes = ScopeBytes();
  meter_.Grow(bytes);
  surroundings_.push_back(std::make_shared<const std::vector<Scope>>(scopes_));
  return Value::MakeFunction(
      [around = surroundings_.back(), bytes, &statement](Interpreter& self, const Arguments& given) {
        self.meter_.Grow(bytes);
        std::vector<Scope> scopes = *around;
        const ScopesGuard guard(&self, &scopes);
        return self.RunBlock(statement.parameters, statement.body, given);
      });
}

std::uint64_t Interpreter::ScopeBytes() const {
  std::uint64_t bytes = 0;
  for (const Scope& scope : scopes_) bytes += kVariableBytes * (scope.size() + 1);
  return bytes;
}

void Interpreter::ExecuteCallBlock(const Statement& statement) {
  const Value function = Evaluate(*statement.value->operands[0]);
  Arguments arguments = EvaluateArguments(*statement.value);
  arguments.named.emplace_back("caller", MakeCaller(statement));
  Write(CallFunction(function, arguments));
}

List Interpreter::Items(const Value& value) {
  List items;
  if (value.is_list()) {
    meter_.GrowItems(value.list().size());
    items = value.list();
  } else if (value.is_dict()) {
    for (const Pair& entry : value.dict().entries) Push(meter_, entry.first, &items);
  } else if (value.is_text()) {
    const Text& text = value.text();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = CodePointBytes(text.bytes(), at);
      Push(meter_, Value(text.Substring(meter_, at, bytes)), &items);
      at += bytes;
    }
  } else if (!value.is_undefined()) {
    throw Failure(std::string("a ") + value.TypeName() + " cannot be looped over");
  }
  return items;
}

Value Interpreter::CallFunction(const Value& function, const Arguments& arguments) {
  if (function.is_undefined()) Undefined(function);
  if (!function.is_callable()) throw Failure(std::string("a ") + function.TypeName() + " cannot be called");
  return function.function()(*this, arguments);
}

}  // namespace skipjack::jinja
