// The expressions of the interpreter.
#include <algorithm>
#include <cmath>
#include <limits>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {
namespace {

constexpr std::int64_t kNoBound = std::numeric_limits<std::int64_t>::min();

// Python's slice.indices for one bound.
std::int64_t ClampBound(std::int64_t bound, std::int64_t count, bool backwards) {
  if (bound < 0) bound += count;
  const std::int64_t low = backwards ? -1 : 0;
  const std::int64_t high = backwards ? count - 1 : count;
  return std::clamp(bound, low, std::max(low, high));
}

// What a slice takes of a sequence: `count` items from `first` on, `step` apart.
struct SliceRange {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 0;

  std::size_t At(std::int64_t i) const { return static_cast<std::size_t>(first + i * step); }
};

SliceRange ResolveSlice(std::int64_t size, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const bool backwards = step < 0;
  const std::int64_t first =
      start == kNoBound ? (backwards ? size - 1 : 0) : ClampBound(start, size, backwards);
  const std::int64_t last = stop == kNoBound ? (backwards ? -1 : size) : ClampBound(stop, size, backwards);
  const std::int64_t distance = backwards ? first - last : last - first;
  const std::int64_t stride = backwards ? -step : step;
  return {first, step, distance > 0 ? (distance - 1) / stride + 1 : 0};
}

Text SliceText(Meter& meter, const Text& text, std::int64_t start, std::int64_t stop, std::int64_t step) {
  meter.Read(2 * text.size());
  const std::string_view bytes = text.bytes();
  const SliceRange range = ResolveSlice(static_cast<std::int64_t>(CodePointCount(bytes)), start, stop, step);
  if (range.count == 0) return {};
  if (step == 1) {
    const std::size_t begin = CodePointOffset(bytes, range.At(0));
    const std::size_t size = CodePointOffset(bytes.substr(begin), static_cast<std::size_t>(range.count));
    return text.Substring(meter, begin, size);
  }
  meter.Grow((text.size() + 1) * sizeof(std::size_t));
  std::vector<std::size_t> offsets;
  for (std::size_t at = 0; at < bytes.size(); at += CodePointBytes(bytes, at)) offsets.push_back(at);
  offsets.push_back(bytes.size());
  Text out;
  for (std::int64_t i = 0; i < range.count; ++i) {
    const std::size_t at = offsets[range.At(i)];
    out.AppendPart(meter, text, at, offsets[range.At(i) + 1] - at);
  }
  return out;
}

Value SliceList(Meter& meter, const Value& object, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const List& items = object.list();
  const SliceRange range = ResolveSlice(static_cast<std::int64_t>(items.size()), start, stop, step);
  List out;
  for (std::int64_t i = 0; i < range.count; ++i) Push(meter, items[range.At(i)], &out);
  return Value::MakeList(std::move(out), object.is_tuple());
}

std::int64_t ToIndex(const Value& key, std::size_t count) {
  const std::int64_t index = key.integer();
  return index < 0 ? index + static_cast<std::int64_t>(count) : index;
}

bool Holds(Meter& meter, const std::string& name, const Value& a, const Value& b) {
  if (name == "==") return Equal(meter, a, b);
  if (name == "!=") return !Equal(meter, a, b);
  const int order = Compare(meter, a, b);
  if (name == "<") return order < 0;
  if (name == ">") return order > 0;
  if (name == "<=") return order <= 0;
  return order >= 0;
}

}  // namespace

void Interpreter::Undefined(const Value& value) {
  throw Failure("'" + value.undefined_name() + "' is undefined");
}

Value Interpreter::EvaluateName(const std::string& name) {
  const Value* value = Find(name);
  return value != nullptr ? *value : Value::MakeUndefined(name);
}

Value Interpreter::Evaluate(const Expression& expression) {
  const StackGuard stack(this);
  meter_.Step();
  const auto operand = [&](std::size_t i) { return Evaluate(*expression.operands[i]); };
  switch (expression.kind) {
    case ExpressionKind::kConstant:
      return expression.constant;
    case ExpressionKind::kName:
      return EvaluateName(expression.name);
    case ExpressionKind::kList:
    case ExpressionKind::kTuple: {
      List items;
      for (const ExpressionPtr& item : expression.operands) Push(meter_, Evaluate(*item), &items);
      return Value::MakeList(std::move(items), expression.kind == ExpressionKind::kTuple);
    }
    case ExpressionKind::kDict: {
      Dict dict;
      for (std::size_t i = 0; i + 1 < expression.operands.size(); i += 2)
        dict.Set(meter_, operand(i), operand(i + 1));
      return Value::MakeDict(std::move(dict));
    }
    case ExpressionKind::kNot:
      return Value(!operand(0).Truthy());
    case ExpressionKind::kNegate:
      return Arithmetic(meter_, "-", Value(std::int64_t{0}), operand(0));
    case ExpressionKind::kAnd: {
      Value left = operand(0);
      return left.Truthy() ? operand(1) : left;
    }
    case ExpressionKind::kOr: {
      Value left = operand(0);
      return left.Truthy() ? left : operand(1);
    }
    case ExpressionKind::kBinary:
      return EvaluateBinary(expression);
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression);
    case ExpressionKind::kConditional:
      if (operand(1).Truthy()) return operand(0);
      return expression.operands[2] ? operand(2) : Value::MakeUndefined("the value of an if without else");
    case ExpressionKind::kAttribute:
      return Attribute(operand(0), expression.name);
    case ExpressionKind::kSubscript:
      return Subscript(operand(0), operand(1));
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression);
    case ExpressionKind::kCall:
      return EvaluateCall(expression);
    case ExpressionKind::kFilter: {
      const Value input = operand(0);
      return ApplyFilter(expression.name, input, EvaluateArguments(expression));
    }
    case ExpressionKind::kTest: {
      const Value input = operand(0);
      return Value(ApplyTest(expression.name, input, EvaluateArguments(expression)));
    }
  }
  return {};
}

Arguments Interpreter::EvaluateArguments(const Expression& expression) {
  Arguments arguments;
  for (std::size_t i = 1; i < expression.operands.size(); ++i) {
    arguments.positional.push_back(Evaluate(*expression.operands[i]));
  }
  for (const auto& [name, value] : expression.named) arguments.named.emplace_back(name, Evaluate(*value));
  return arguments;
}

Value Interpreter::EvaluateCompare(const Expression& expression) {
  Value left = Evaluate(*expression.operands[0]);
  for (std::size_t i = 0; i < expression.names.size(); ++i) {
    Value right = Evaluate(*expression.operands[i + 1]);
    const std::string& name = expression.names[i];
    bool holds = false;
    if (name == "in" || name == "not in") {
      holds = Contains(left, right).boolean() == (name == "in");
    } else {
      holds = Holds(meter_, name, left, right);
    }
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::Contains(const Value& needle, const Value& haystack) {
  if (haystack.is_text()) {
    if (!needle.is_text()) throw Failure(std::string("a ") + needle.TypeName() + " cannot be in a string");
    meter_.Read(haystack.text().size() + needle.text().size());
    return Value(FindBytes(haystack.bytes(), needle.bytes(), 0) != std::string::npos);
  }
  if (haystack.is_list()) {
    return Value(std::any_of(haystack.list().begin(), haystack.list().end(),
                             [&](const Value& item) { return Equal(meter_, item, needle); }));
  }
  if (haystack.is_dict()) return Value(haystack.dict().Find(meter_, needle) != nullptr);
  if (haystack.is_undefined()) return Value(false);
  throw Failure(std::string("nothing can be in a ") + haystack.TypeName());
}

Value Interpreter::EvaluateBinary(const Expression& expression) {
  const Value a = Evaluate(*expression.operands[0]);
  const Value b = Evaluate(*expression.operands[1]);
  if (a.is_undefined() && expression.name != "~") Undefined(a);
  if (b.is_undefined() && expression.name != "~") Undefined(b);
  return Arithmetic(meter_, expression.name, a, b);
}

Value Interpreter::Attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) Undefined(object);
  if (HasMethod(object, name)) {
    return Value::MakeFunction(
        [object, name](Interpreter& interpreter, const Arguments& arguments) {
          Value result;
          CallMethod(interpreter, object, name, arguments, &result);
          return result;
        },
        object.height());
  }
  if (object.is_dict()) {
    if (const Value* value = object.dict().Find(meter_, std::string_view(name))) return *value;
  }
  if (object.is_namespace()) {
    if (const Value* value = object.attributes().Find(meter_, std::string_view(name))) return *value;
  }
  return Value::MakeUndefined(name);
}

Value Interpreter::Subscript(const Value& object, const Value& key) {
  if (object.is_undefined()) Undefined(object);
  if (object.is_dict()) {
    const Value* value = object.dict().Find(meter_, key);
    if (value != nullptr) return *value;
    return Value::MakeUndefined(key.is_text() ? std::string_view(key.bytes()) : "an item");
  }
  if (object.is_list() && key.is_integral()) {
    const List& items = object.list();
    const std::int64_t index = ToIndex(key, items.size());
    if (index < 0 || index >= static_cast<std::int64_t>(items.size())) return Value::MakeUndefined("an item");
    return items[static_cast<std::size_t>(index)];
  }
  if (object.is_text() && key.is_integral()) {
    const Text& text = object.text();
    meter_.Read(2 * text.size());
    const std::int64_t index = ToIndex(key, CodePointCount(text.bytes()));
    if (index < 0) return Value::MakeUndefined("a character");
    const std::size_t at = CodePointOffset(text.bytes(), static_cast<std::size_t>(index));
    if (at >= text.size()) return Value::MakeUndefined("a character");
    return Value(text.Substring(meter_, at, CodePointBytes(text.bytes(), at)));
  }
  return key.is_text() ? Attribute(object, key.bytes()) : Value::MakeUndefined("an item");
}

Value Interpreter::EvaluateSlice(const Expression& expression) {
  const Value object = Evaluate(*expression.operands[0]);
  const auto bound = [&](std::size_t i, std::int64_t absent) {
    if (!expression.operands[i]) return absent;
    const Value value = Evaluate(*expression.operands[i]);
    if (value.is_none()) return absent;
    if (!value.is_integral()) throw Failure("a slice needs whole numbers");
    // Far out is as good as the end, and keeps the arithmetic safe.
    return std::clamp<std::int64_t>(value.integer(), -(std::int64_t{1} << 40), std::int64_t{1} << 40);
  };
  const std::int64_t start = bound(1, kNoBound);
  const std::int64_t stop = bound(2, kNoBound);
  const std::int64_t step = bound(3, 1);
  if (step == 0) throw Failure("a slice cannot step by 0");
  if (object.is_text()) return Value(SliceText(meter_, object.text(), start, stop, step));
  if (object.is_undefined()) Undefined(object);
  if (!object.is_list()) throw Failure(std::string("a ") + object.TypeName() + " cannot be sliced");
  return SliceList(meter_, object, start, stop, step);
}

Value Interpreter::EvaluateCall(const Expression& expression) {
  const Expression& callee = *expression.operands[0];
  if (callee.kind != ExpressionKind::kAttribute) {
    const Value function = Evaluate(callee);
    return CallFunction(function, EvaluateArguments(expression));
  }
  const Value object = Evaluate(*callee.operands[0]);
  const Arguments arguments = EvaluateArguments(expression);
  Value result;
  if (CallMethod(*this, object, callee.name, arguments, &result)) return result;
  const Value function = Attribute(object, callee.name);
  if (function.is_undefined()) {
    throw Failure(std::string("a ") + object.TypeName() + " has no method '" + callee.name + "'");
  }
  return CallFunction(function, arguments);
}

}  // namespace skipjack::jinja
