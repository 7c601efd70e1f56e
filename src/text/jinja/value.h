// What template expressions evaluate to: Python's values, as far as chat templates use them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "text/jinja/text_value.h"

namespace skipjack::jinja {

// Ends an evaluation or a parse; caught where the module's border is (chat_template.cc) and nowhere else.
class Failure : public std::runtime_error {
 public:
  explicit Failure(Status status) : std::runtime_error(status.message()), status_(std::move(status)) {}
  explicit Failure(std::string message) : Failure(Status::InvalidArgument(std::move(message))) {}
  const Status& status() const { return status_; }

 private:
  Status status_;
};

class Value;
class Interpreter;
struct Arguments;

using List = std::vector<Value>;
using Pair = std::pair<Value, Value>;

// In insertion order. Templates' mappings are small, so a look-up walks them (and the interpreter counts
// steps).
struct Dict {
  std::vector<Pair> entries;

  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key) const;
  void Set(Value key, Value value);
};

using Function = std::function<Value(Interpreter&, const Arguments&)>;

class Value {
 public:
  struct Undefined {
    std::string name;  // for messages
  };
  struct None {};
  struct Sequence {
    std::shared_ptr<const List> items;
    bool tuple = false;
  };
  struct Callable {
    std::string name;
    std::shared_ptr<const Function> function;
  };
  // The only mutable value: what namespace() makes, and the loop object's counters.
  struct Namespace {
    std::shared_ptr<Dict> attributes;
  };

  Value() : state_(None{}) {}
  Value(bool value) : state_(value) {}          // NOLINT: implicit on purpose
  Value(std::int64_t value) : state_(value) {}  // NOLINT
  Value(double value) : state_(value) {}        // NOLINT
  Value(Text value) : state_(std::make_shared<const Text>(std::move(value))) {}  // NOLINT
  Value(const char*) = delete;

  static Value MakeUndefined(std::string name) { return FromState(Undefined{std::move(name)}); }
  static Value MakeText(std::string bytes, bool trusted) {
    return Value(trusted ? Text::Trusted(std::move(bytes)) : Text::Untrusted(std::move(bytes)));
  }
  static Value MakeList(List items, bool tuple = false) {
    return FromState(Sequence{std::make_shared<const List>(std::move(items)), tuple});
  }
  static Value MakeDict(Dict dict) { return FromState(std::make_shared<const Dict>(std::move(dict))); }
  static Value MakeNamespace(Dict dict) {
    return FromState(Namespace{std::make_shared<Dict>(std::move(dict))});
  }
  static Value MakeFunction(std::string name, Function function) {
    return FromState(Callable{std::move(name), std::make_shared<const Function>(std::move(function))});
  }
  static Value FromJson(const nlohmann::ordered_json& json);

  bool is_undefined() const { return Holds<Undefined>(); }
  bool is_none() const { return Holds<None>(); }
  bool is_bool() const { return Holds<bool>(); }
  bool is_int() const { return Holds<std::int64_t>(); }
  bool is_float() const { return Holds<double>(); }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_integral() const { return is_bool() || is_int(); }
  bool is_text() const { return Holds<std::shared_ptr<const Text>>(); }
  bool is_list() const { return Holds<Sequence>(); }
  bool is_tuple() const { return is_list() && std::get<Sequence>(state_).tuple; }
  bool is_dict() const { return Holds<std::shared_ptr<const Dict>>(); }
  bool is_namespace() const { return Holds<Namespace>(); }
  bool is_callable() const { return Holds<Callable>(); }

  bool boolean() const { return std::get<bool>(state_); }
  std::int64_t integer() const {
    return is_bool() ? static_cast<std::int64_t>(boolean()) : std::get<std::int64_t>(state_);
  }
  double number() const { return is_float() ? std::get<double>(state_) : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<std::shared_ptr<const Text>>(state_); }
  const std::string& bytes() const { return text().bytes(); }
  const List& list() const { return *std::get<Sequence>(state_).items; }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(state_); }
  Dict& attributes() const { return *std::get<Namespace>(state_).attributes; }
  const Callable& callable() const { return std::get<Callable>(state_); }
  const std::string& undefined_name() const { return std::get<Undefined>(state_).name; }

  bool Truthy() const;
  // "string", "list", ... for messages.
  const char* TypeName() const;

 private:
  using State = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
                             Sequence, std::shared_ptr<const Dict>, Namespace, Callable>;

  template <typename T>
  bool Holds() const {
    return std::holds_alternative<T>(state_);
  }
  static Value FromState(State state) {
    Value value;
    value.state_ = std::move(state);
    return value;
  }

  State state_;
};

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index` or called `name`; null when absent.
  const Value* Find(std::size_t index, std::string_view name) const;
};

bool Equal(const Value& a, const Value& b);
// Python's order of numbers, strings and lists; Failure for anything else.
int Compare(const Value& a, const Value& b);

// str(): what `{{ }}` prints.
Text ToText(const Value& value);
// repr(): what a list prints of its items.
Text ToRepr(const Value& value);

struct JsonStyle {
  int indent = -1;  // -1: one line with ", " and ": "
  bool sort_keys = false;
};
// json.dumps(..., ensure_ascii=False). The result is trusted only if all of the value is.
Text ToJson(const Value& value, const JsonStyle& style);

std::string FloatRepr(double value);

}  // namespace skipjack::jinja
