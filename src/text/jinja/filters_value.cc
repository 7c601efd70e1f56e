// Filters of single values: numbers, defaults, JSON.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/filters.h"

namespace skipjack::jinja {
namespace {

Value ToInteger(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value absent(IntegerArgument(arguments, 0, "default", 0));
  if (input.is_integral()) return Value(input.integer());
  double number = 0;
  if (input.is_float()) {
    number = input.number();
  } else if (input.is_text()) {
    const Text trimmed = Strip(interpreter.meter(), input.text(), nullptr, true, true);
    interpreter.meter().Read(trimmed.size());
    const std::string& bytes = trimmed.bytes();
    const char* begin = bytes.data() + (bytes.starts_with('+') ? 1 : 0);
    const char* end = bytes.data() + bytes.size();
    std::int64_t integer = 0;
    const auto read = std::from_chars(begin, end, integer);
    if (read.ec == std::errc() && read.ptr == end) return Value(integer);
    const auto as_float = std::from_chars(begin, end, number);
    if (as_float.ec != std::errc() || as_float.ptr != end) return absent;
  } else {
    return absent;
  }
  if (!std::isfinite(number) || std::fabs(number) > 9e18) return absent;
  return Value(static_cast<std::int64_t>(number));
}

Value ToFloat(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (input.is_number()) return Value(input.number());
  const Value* absent = arguments.Find(0, "default");
  const Value fallback = absent != nullptr ? *absent : Value(0.0);
  if (!input.is_text()) return fallback;
  const Text trimmed = Strip(interpreter.meter(), input.text(), nullptr, true, true);
  interpreter.meter().Read(trimmed.size());
  const char* end = trimmed.bytes().data() + trimmed.size();
  double number = 0;
  const auto read = std::from_chars(trimmed.bytes().data(), end, number);
  return read.ec == std::errc() && read.ptr == end ? Value(number) : fallback;
}

Value Absolute(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (!input.is_number()) throw Failure("abs needs a number");
  if (input.number() >= 0) return input;
  return Arithmetic(interpreter.meter(), "-", Value(std::int64_t{0}), input);
}

Value Round(Interpreter&, const Value& input, const Arguments& arguments) {
  if (!input.is_number()) throw Failure("round needs a number");
  const std::int64_t precision = IntegerArgument(arguments, 0, "precision", 0);
  const Value* method = GivenArgument(arguments, 1, "method");
  const std::string name = method != nullptr && method->is_text() ? method->bytes() : "common";
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(precision, -15, 15)));
  const double scaled = input.number() * scale;
  if (name == "ceil") return Value(std::ceil(scaled) / scale);
  if (name == "floor") return Value(std::floor(scaled) / scale);
  return Value(std::nearbyint(scaled) / scale);
}

Value Default(Interpreter&, const Value& input, const Arguments& arguments) {
  const bool use = input.is_undefined() || (FlagArgument(arguments, 1, "boolean") && !input.Truthy());
  if (!use) return input;
  const Value* value = arguments.Find(0, "default_value");
  return value != nullptr ? *value : Value::MakeText("", true);
}

Value Json(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  JsonStyle style;
  // transformers' signature: tojson(ensure_ascii, indent, separators, sort_keys)
  const Value* indent = nullptr;
  for (const auto& [name, value] : arguments.named) {
    if (name == "indent" && !value.is_none()) indent = &value;
    if (name == "sort_keys") style.sort_keys = value.Truthy();
  }
  if (indent == nullptr && arguments.positional.size() == 1 && arguments.positional[0].is_int()) {
    indent = &arguments.positional[0];
  }
  if (indent != nullptr) {
    if (!indent->is_integral() || indent->integer() < 0 || indent->integer() > 32)
      throw Failure("indent must lie in 0..32");
    style.indent = static_cast<int>(indent->integer());
  }
  return Value(ToJson(interpreter.meter(), input, style));
}

constexpr NamedFilter kFilters[] = {
    {"abs", Absolute},  {"d", Default},   {"default", Default}, {"float", ToFloat},
    {"int", ToInteger}, {"round", Round}, {"tojson", Json},
};

}  // namespace

std::span<const NamedFilter> ValueFilters() {
  return kFilters;
}

}  // namespace skipjack::jinja
