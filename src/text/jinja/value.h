// What template expressions evaluate to: Python's values, as far as chat templates use them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/failure.h"
#include "text/jinja/meter.h"
#include "text/jinja/text_value.h"

namespace skipjack::jinja {

class Value;
class Interpreter;
struct Arguments;

using List = std::vector<Value>;
using Pair = std::pair<Value, Value>;

// In insertion order. Templates' mappings are small, so a look-up walks them and charges for that.
struct Dict {
  std::vector<Pair> entries;

  const Value* Find(Meter& meter, std::string_view key) const;
  const Value* Find(Meter& meter, const Value& key) const;
  void Set(Meter& meter, Value key, Value value);
  void Add(Meter& meter, Value key, Value value);  // of a key that is not there yet
};

using Function = std::function<Value(Interpreter&, const Arguments&)>;

// Lists, mappings and functions know how deep they reach, and no more than kMaxHeight levels may lie within
// one another: what walks them (and what frees them) may recurse. A namespace ends such a path, although it
// can hold anything: the interpreter keeps it and empties it at the end.
class Value {
 public:
  static constexpr int kMaxHeight = 200;

  struct Undefined {
    std::shared_ptr<const std::string> name;  // for messages
  };
  struct None {};
  struct Sequence {
    std::shared_ptr<const List> items;
    int height = 1;
    bool tuple = false;
  };
  struct Mapping {
    std::shared_ptr<const Dict> dict;
    int height = 1;
  };
  struct Callable {
    std::shared_ptr<const Function> function;
    int height = 1;
  };
  // What namespace() makes, which templates may write to, and the loop object, which only the interpreter
  // does.
  struct Namespace {
    std::shared_ptr<Dict> attributes;
    int height = 0;
    bool writable = true;
  };

  Value() : state_(None{}) {}
  Value(bool value) : state_(value) {}          // NOLINT: implicit on purpose
  Value(std::int64_t value) : state_(value) {}  // NOLINT
  Value(double value) : state_(value) {}        // NOLINT
  Value(Text value) : state_(std::make_shared<const Text>(std::move(value))) {}  // NOLINT
  Value(const char*) = delete;

  // Long names are cut.
  static Value MakeUndefined(std::string_view name);
  static Value MakeText(std::string bytes, bool trusted) {
    return Value(trusted ? Text::Trusted(std::move(bytes)) : Text::Untrusted(std::move(bytes)));
  }
  // The items have been charged.
  static Value MakeList(List items, bool tuple = false);
  static Value MakeDict(Dict dict);
  // `height`: of what the function holds.
  static Value MakeFunction(Function function, int height = 0);
  static Value MakeNamespace(Namespace state) { return FromState(std::move(state)); }
  static Value FromJson(Meter& meter, const nlohmann::ordered_json& json);

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
  bool is_dict() const { return Holds<Mapping>(); }
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
  const Dict& dict() const { return *std::get<Mapping>(state_).dict; }
  Dict& attributes() const { return *std::get<Namespace>(state_).attributes; }
  bool writable() const { return std::get<Namespace>(state_).writable; }
  const Function& function() const { return *std::get<Callable>(state_).function; }
  const std::string& undefined_name() const { return *std::get<Undefined>(state_).name; }

  // Levels of values within this one, itself included; 0 for what holds none.
  int height() const;

  bool Truthy() const;
  // "string", "list", ... for messages.
  const char* TypeName() const;

 private:
  using State = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
                             Sequence, Mapping, Namespace, Callable>;

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

// The height of what holds `items`.
int HeightOver(const List& items);

// The way into a list: charges for the place.
inline void Push(Meter& meter, Value value, List* list) {
  meter.GrowItems(1);
  list->push_back(std::move(value));
}

struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index` or called `name`; null when absent.
  const Value* Find(std::size_t index, std::string_view name) const;
};

bool Equal(Meter& meter, const Value& a, const Value& b);
// Python's order of numbers, strings and lists; Failure for anything else.
int Compare(Meter& meter, const Value& a, const Value& b);

// str(): what `{{ }}` prints.
void AppendText(Meter& meter, const Value& value, Text* out);
Text ToText(Meter& meter, const Value& value);
// repr(): what a list prints of its items.
void AppendRepr(Meter& meter, const Value& value, Text* out);

struct JsonStyle {
  int indent = -1;  // -1: one line with ", " and ": "
  bool sort_keys = false;
};
// json.dumps(..., ensure_ascii=False). The result is trusted only if all of the value is.
Text ToJson(Meter& meter, const Value& value, const JsonStyle& style);

std::string FloatRepr(double value);

}  // namespace skipjack::jinja
