#include <cmath>
#include <cstdint>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {
namespace {

[[noreturn]] void Overflow() {
  throw Failure("a number in the chat template grew out of 64 bits");
}

Value IntegerArithmetic(const std::string& op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (op == "+") {
    if (__builtin_add_overflow(a, b, &out)) Overflow();
    return Value(out);
  }
  if (op == "-") {
    if (__builtin_sub_overflow(a, b, &out)) Overflow();
    return Value(out);
  }
  if (op == "*") {
    if (__builtin_mul_overflow(a, b, &out)) Overflow();
    return Value(out);
  }
  if (op == "**") {
    if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
    out = 1;
    if (a == 0 || a == 1) return Value(b == 0 ? out : a);
    if (a == -1) return Value(b % 2 == 0 ? out : a);
    for (std::int64_t i = 0; i < b; ++i) {
      if (__builtin_mul_overflow(out, a, &out)) Overflow();
    }
    return Value(out);
  }
  if (b == 0) throw Failure("division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {
    if (op == "%") return Value(std::int64_t{0});
    if (__builtin_sub_overflow(std::int64_t{0}, a, &out)) Overflow();
    return Value(out);
  }
  // Python rounds towards minus infinity; the remainder has the divisor's sign.
  const std::int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == "//") return Value(a / b - adjust);
  return Value(adjust ? remainder + b : remainder);
}

Value FloatArithmetic(const std::string& op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) throw Failure("division by zero");
  if (op == "/") return Value(a / b);
  if (op == "//") return Value(std::floor(a / b));
  return Value(a - std::floor(a / b) * b);
}

// List multiplication charges in one go, so that a huge product is refused before anything is made.
Value RepeatList(Meter& meter, const Value& what, std::uint64_t times) {
  const List& items = what.list();
  std::uint64_t count = 0;
  if (__builtin_mul_overflow(times, std::uint64_t{items.size()}, &count)) count = UINT64_MAX;
  meter.GrowItems(count);
  List out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < times && !items.empty(); ++i)
    out.insert(out.end(), items.begin(), items.end());
  return Value::MakeList(std::move(out), what.is_tuple());
}

Value RepeatText(Meter& meter, const Text& what, std::uint64_t times) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(times, std::uint64_t{what.size()}, &bytes)) bytes = UINT64_MAX;
  Text out;
  if (bytes > meter.text_bytes()) meter.GrowText(0, bytes);  // refuses it
  for (std::uint64_t i = 0; i < times && !what.empty(); ++i) out.Append(meter, what);
  return Value(std::move(out));
}

Value Repeat(Meter& meter, const Value& what, std::int64_t times) {
  const auto count = static_cast<std::uint64_t>(times < 0 ? 0 : times);
  return what.is_list() ? RepeatList(meter, what, count) : RepeatText(meter, what.text(), count);
}

Value JoinLists(Meter& meter, const Value& a, const Value& b) {
  meter.GrowItems(a.list().size() + b.list().size());
  List out;
  out.reserve(a.list().size() + b.list().size());
  out.insert(out.end(), a.list().begin(), a.list().end());
  out.insert(out.end(), b.list().begin(), b.list().end());
  return Value::MakeList(std::move(out), a.is_tuple());
}

}  // namespace

Value Arithmetic(Meter& meter, const std::string& op, const Value& a, const Value& b) {
  if (op == "~" || (op == "+" && a.is_text() && b.is_text())) {
    Text out = ToText(meter, a);
    AppendText(meter, b, &out);
    return Value(std::move(out));
  }
  if (a.is_number() && b.is_number()) {
    // -0.0 needs the sign that 0 - 0.0 would lose.
    if (op == "-" && a.is_int() && a.integer() == 0 && b.is_float()) return Value(-b.number());
    if (a.is_integral() && b.is_integral()) return IntegerArithmetic(op, a.integer(), b.integer());
    return FloatArithmetic(op, a.number(), b.number());
  }
  if (op == "+" && a.is_list() && b.is_list() && a.is_tuple() == b.is_tuple()) return JoinLists(meter, a, b);
  if (op == "*" && (a.is_text() || a.is_list()) && b.is_integral()) return Repeat(meter, a, b.integer());
  if (op == "*" && (b.is_text() || b.is_list()) && a.is_integral()) return Repeat(meter, b, a.integer());
  if (op == "%" && a.is_text()) throw Failure("formatting with % is not supported; use the format filter");
  throw Failure(std::string("'") + op + "' does not go with " + a.TypeName() + " and " + b.TypeName());
}

}  // namespace skipjack::jinja
