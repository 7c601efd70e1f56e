#include <ctime>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;

Value Range(Interpreter& interpreter, const Arguments& arguments) {
  std::int64_t parts[3] = {0, 0, 1};
  const std::size_t count = arguments.positional.size();
  if (count < 1 || count > 3) throw Failure("range takes one to three numbers");
  for (std::size_t i = 0; i < count; ++i) {
    if (!arguments.positional[i].is_integral()) throw Failure("range takes whole numbers");
    parts[count == 1 ? 1 : i] = arguments.positional[i].integer();
  }
  const auto [start, stop, step] = parts;
  if (step == 0) throw Failure("range cannot step by 0");
  List items;
  std::int64_t at = start;
  while (step > 0 ? at < stop : at > stop) {
    if (static_cast<std::int64_t>(items.size()) >= kMaxRange) {
      throw Failure(Status::ResourceExhausted("a range in the chat template has more than " +
                                              std::to_string(kMaxRange) + " items"));
    }
    items.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  interpreter.Charge(items.size());
  return Value::MakeList(std::move(items));
}

Dict NamedAsDict(const Arguments& arguments) {
  Dict dict;
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) throw Failure("only mappings and named values can be taken");
    for (const Pair& entry : value.dict().entries) dict.Set(entry.first, entry.second);
  }
  for (const auto& [name, value] : arguments.named) dict.Set(Value::MakeText(name, true), value);
  return dict;
}

Value StrftimeNow(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.positional[0].is_text()) {
    throw Failure("strftime_now takes one format");
  }
  const Text& format = arguments.positional[0].text();
  if (format.empty()) return Value(Text());
  const std::time_t now = interpreter.unix_seconds();
  std::tm parts{};
  gmtime_r(&now, &parts);
  char buffer[512];
  // One byte more than the format, so that an empty result differs from one that does not fit.
  const std::size_t size = std::strftime(buffer, sizeof(buffer), (format.bytes() + "|").c_str(), &parts);
  if (size == 0) throw Failure("strftime_now: the format is too long");
  return Value::MakeText(std::string(buffer, size - 1), format.FullyTrusted());
}

[[noreturn]] Value RaiseException(Interpreter&, const Arguments& arguments) {
  throw Failure(arguments.positional.empty() ? std::string("the chat template refuses the request")
                                             : ToText(arguments.positional[0]).bytes());
}

}  // namespace

void DefineGlobals(Interpreter* interpreter) {
  const auto define = [&](const char* name, Function function) {
    interpreter->Define(name, Value::MakeFunction(name, std::move(function)));
  };
  define("range", Range);
  define("namespace", [](Interpreter&, const Arguments& a) { return Value::MakeNamespace(NamedAsDict(a)); });
  define("dict", [](Interpreter&, const Arguments& a) { return Value::MakeDict(NamedAsDict(a)); });
  define("raise_exception", RaiseException);
  define("strftime_now", StrftimeNow);
}

}  // namespace skipjack::jinja
