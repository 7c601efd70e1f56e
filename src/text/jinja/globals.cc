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
    Push(interpreter.meter(), Value(at), &items);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return Value::MakeList(std::move(items));
}

Dict NamedAsDict(Meter& meter, const Arguments& arguments) {
  Dict dict;
  for (const Value& value : arguments.positional) {
    if (!value.is_dict()) throw Failure("only mappings and named values can be taken");
    for (const Pair& entry : value.dict().entries) dict.Set(meter, entry.first, entry.second);
  }
  for (const auto& [name, value] : arguments.named) dict.Set(meter, Value::MakeText(name, true), value);
  return dict;
}

Value StrftimeNow(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.positional[0].is_text()) {
    throw Failure("strftime_now takes one format");
  }
  const Text& format = arguments.positional[0].text();
  if (format.empty()) return Value(Text());
  char buffer[512];
  if (format.size() >= sizeof(buffer)) throw Failure("strftime_now: the format is too long");
  const std::time_t now = interpreter.unix_seconds();
  std::tm parts{};
  if (gmtime_r(&now, &parts) == nullptr) throw Failure("strftime_now: the time has no date");
  // One byte more than the format, so that an empty result differs from one that does not fit.
  const std::size_t size = std::strftime(buffer, sizeof(buffer), (format.bytes() + "|").c_str(), &parts);
  if (size == 0) throw Failure("strftime_now: the format is too long");
  return Value::MakeText(std::string(buffer, size - 1), format.FullyTrusted());
}

// The message goes to a client: of a very long one the beginning will do.
[[noreturn]] Value RaiseException(Interpreter& interpreter, const Arguments& arguments) {
  constexpr std::size_t kMaxMessage = 4096;
  if (arguments.positional.empty()) throw Failure("the chat template refuses the request");
  std::string message = ToText(interpreter.meter(), arguments.positional[0]).bytes();
  if (message.size() > kMaxMessage) {
    std::size_t end = kMaxMessage;
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
    message = message.substr(0, end) + "...";
  }
  throw Failure(std::move(message));
}

}  // namespace

void DefineGlobals(Interpreter* interpreter) {
  const auto define = [&](const char* name, Function function) {
    interpreter->Define(name, Value::MakeFunction(std::move(function)));
  };
  define("range", Range);
  define("namespace",
         [](Interpreter& i, const Arguments& a) { return i.MakeNamespace(NamedAsDict(i.meter(), a)); });
  define("dict",
         [](Interpreter& i, const Arguments& a) { return Value::MakeDict(NamedAsDict(i.meter(), a)); });
  define("raise_exception", RaiseException);
  define("strftime_now", StrftimeNow);
}

}  // namespace skipjack::jinja
