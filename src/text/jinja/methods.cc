// Methods of strings, lists and mappings, as Python has them. Values are immutable, so append and update are
// absent.
#include <algorithm>
#include <span>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {
namespace {

using Method = Value (*)(Meter& meter, const Value& object, const Arguments& arguments);

struct NamedMethod {
  std::string_view name;
  Method call;
};

const std::string* TextArgument(const Arguments& arguments, std::size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr || value->is_none()) return nullptr;
  if (!value->is_text()) throw Failure(std::string(name) + " must be a string, not a " + value->TypeName());
  return &value->bytes();
}

const Text& NeedText(const Arguments& arguments, std::size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr || !value->is_text())
    throw Failure("a string is needed for '" + std::string(name) + "'");
  return value->text();
}

std::int64_t WholeArgument(const Arguments& arguments, std::size_t index, std::string_view name,
                           std::int64_t absent) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr || value->is_none()) return absent;
  if (!value->is_integral()) throw Failure(std::string(name) + " must be a whole number");
  return value->integer();
}

Value ListOf(Meter& meter, std::vector<Text> texts) {
  List items;
  for (Text& text : texts) Push(meter, Value(std::move(text)), &items);
  return Value::MakeList(std::move(items));
}

template <bool kFromRight>
Value SplitAt(Meter& meter, const Value& object, const Arguments& arguments) {
  const std::string* separator = TextArgument(arguments, 0, "sep");
  if (separator != nullptr && separator->empty()) throw Failure("an empty separator splits nothing");
  const std::int64_t limit = WholeArgument(arguments, 1, "maxsplit", -1);
  return ListOf(meter, Split(meter, object.text(), separator, limit, kFromRight));
}

Value Lines(Meter& meter, const Value& object, const Arguments&) {
  return ListOf(meter, SplitLines(meter, object.text()));
}

template <bool kLeft, bool kRight>
Value Stripped(Meter& meter, const Value& object, const Arguments& arguments) {
  return Value(Strip(meter, object.text(), TextArgument(arguments, 0, "chars"), kLeft, kRight));
}

template <bool kUpper>
Value Cased(Meter& meter, const Value& object, const Arguments&) {
  return Value(MapCase(meter, object.text(), kUpper));
}

// Unchanged in this case, changed in the other.
template <bool kUpper>
Value IsCased(Meter& meter, const Value& object, const Arguments&) {
  return Value(MapCase(meter, object.text(), kUpper).bytes() == object.bytes() &&
               MapCase(meter, object.text(), !kUpper).bytes() != object.bytes());
}

Value Titled(Meter& meter, const Value& object, const Arguments&) {
  return Value(Title(meter, object.text()));
}

Value Capitalized(Meter& meter, const Value& object, const Arguments&) {
  return Value(Capitalize(meter, object.text()));
}

// startswith and endswith take one string or a tuple of them.
template <bool kPrefix>
Value HasAffix(Meter& meter, const Value& object, const Arguments& arguments) {
  const auto matches = [&](const std::string& affix) {
    meter.Step();
    if (affix.size() > object.bytes().size()) return false;
    meter.Read(affix.size());
    return kPrefix ? object.bytes().starts_with(affix) : object.bytes().ends_with(affix);
  };
  const Value* value = arguments.Find(0, "prefix");
  if (value == nullptr || !value->is_list()) return Value(matches(NeedText(arguments, 0, "prefix").bytes()));
  return Value(std::any_of(value->list().begin(), value->list().end(),
                           [&](const Value& item) { return item.is_text() && matches(item.bytes()); }));
}

template <bool kPrefix>
Value WithoutAffix(Meter& meter, const Value& object, const Arguments& arguments) {
  const Text& text = object.text();
  const std::string& affix = NeedText(arguments, 0, kPrefix ? "prefix" : "suffix").bytes();
  if (affix.empty() || affix.size() > text.size()) return object;
  meter.Read(affix.size());
  const std::size_t at = kPrefix ? 0 : text.size() - affix.size();
  if (text.bytes().compare(at, affix.size(), affix) != 0) return object;
  return Value(kPrefix ? text.Substring(meter, affix.size()) : text.Substring(meter, 0, at));
}

Value Replaced(Meter& meter, const Value& object, const Arguments& arguments) {
  return Value(Replace(meter, object.text(), NeedText(arguments, 0, "old"), NeedText(arguments, 1, "new"),
                       WholeArgument(arguments, 2, "count", -1)));
}

Value FindIn(Meter& meter, const Value& object, const Arguments& arguments) {
  const std::string& needle = NeedText(arguments, 0, "sub").bytes();
  meter.Read(object.bytes().size() + needle.size());
  const std::size_t found = FindBytes(object.bytes(), needle, 0);
  if (found == std::string::npos) return Value(std::int64_t{-1});
  return Value(static_cast<std::int64_t>(CodePointCount(std::string_view(object.bytes()).substr(0, found))));
}

Value IndexIn(Meter& meter, const Value& object, const Arguments& arguments) {
  Value at = FindIn(meter, object, arguments);
  if (at.integer() < 0) throw Failure("substring not found");
  return at;
}

Value CountIn(Meter& meter, const Value& object, const Arguments& arguments) {
  const std::string& needle = NeedText(arguments, 0, "sub").bytes();
  meter.Read(object.bytes().size() + needle.size());
  if (needle.empty()) return Value(static_cast<std::int64_t>(CodePointCount(object.bytes())) + 1);
  std::int64_t count = 0;
  for (std::size_t at = FindBytes(object.bytes(), needle, 0); at != std::string::npos;
       at = FindBytes(object.bytes(), needle, at + needle.size())) {
    meter.Step();
    ++count;
  }
  return Value(count);
}

template <typename Predicate>
Value AllBytes(Meter& meter, const Value& object, Predicate predicate) {
  const std::string& bytes = object.bytes();
  meter.Read(bytes.size());
  return Value(!bytes.empty() && std::all_of(bytes.begin(), bytes.end(), predicate));
}

Value IsDigit(Meter& meter, const Value& object, const Arguments&) {
  return AllBytes(meter, object, [](char c) { return c >= '0' && c <= '9'; });
}

Value IsAlpha(Meter& meter, const Value& object, const Arguments&) {
  return AllBytes(meter, object,
                  [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80); });
}

Value IsSpace(Meter& meter, const Value& object, const Arguments&) {
  return Value(!object.text().empty() && Strip(meter, object.text(), nullptr, true, true).empty());
}

Value JoinWith(Meter& meter, const Value& object, const Arguments& arguments) {
  const Value* items = arguments.Find(0, "iterable");
  if (items == nullptr || !items->is_list()) throw Failure("join needs a list");
  Text out;
  bool first = true;
  for (const Value& item : items->list()) {
    meter.Step();
    if (!item.is_text()) throw Failure("join needs strings");
    if (!first) out.Append(meter, object.text());
    first = false;
    out.Append(meter, item.text());
  }
  return Value(std::move(out));
}

constexpr NamedMethod kTextMethods[] = {
    {"capitalize", Capitalized},
    {"count", CountIn},
    {"endswith", HasAffix<false>},
    {"find", FindIn},
    {"index", IndexIn},
    {"isalpha", IsAlpha},
    {"isdigit", IsDigit},
    {"islower", IsCased<false>},
    {"isspace", IsSpace},
    {"isupper", IsCased<true>},
    {"join", JoinWith},
    {"lower", Cased<false>},
    {"lstrip", Stripped<true, false>},
    {"removeprefix", WithoutAffix<true>},
    {"removesuffix", WithoutAffix<false>},
    {"replace", Replaced},
    {"rsplit", SplitAt<true>},
    {"rstrip", Stripped<false, true>},
    {"split", SplitAt<false>},
    {"splitlines", Lines},
    {"startswith", HasAffix<true>},
    {"strip", Stripped<true, true>},
    {"title", Titled},
    {"upper", Cased<true>},
};

template <bool kKeys, bool kValues>
Value Listed(Meter& meter, const Value& object, const Arguments&) {
  List items;
  for (const Pair& entry : object.dict().entries) {
    if (kKeys && kValues) {
      meter.GrowItems(2);
      Push(meter, Value::MakeList({entry.first, entry.second}, true), &items);
    } else {
      Push(meter, kKeys ? entry.first : entry.second, &items);
    }
  }
  return Value::MakeList(std::move(items));
}

Value GetItem(Meter& meter, const Value& object, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Failure("get needs a key");
  if (const Value* found = object.dict().Find(meter, arguments.positional[0])) return *found;
  const Value* absent = arguments.Find(1, "default");
  return absent != nullptr ? *absent : Value();
}

constexpr NamedMethod kDictMethods[] = {
    {"copy", [](Meter&, const Value& object, const Arguments&) { return object; }},
    {"get", GetItem},
    {"items", Listed<true, true>},
    {"keys", Listed<true, false>},
    {"values", Listed<false, true>},
};

Value IndexOfItem(Meter& meter, const Value& object, const Arguments& arguments) {
  const List& items = object.list();
  for (std::size_t i = 0; !arguments.positional.empty() && i < items.size(); ++i) {
    if (Equal(meter, items[i], arguments.positional[0])) return Value(static_cast<std::int64_t>(i));
  }
  throw Failure("the value is not in the list");
}

Value CountItems(Meter& meter, const Value& object, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Failure("count needs a value");
  const auto equals = [&](const Value& item) { return Equal(meter, item, arguments.positional[0]); };
  return Value(static_cast<std::int64_t>(std::count_if(object.list().begin(), object.list().end(), equals)));
}

constexpr NamedMethod kListMethods[] = {
    {"count", CountItems},
    {"index", IndexOfItem},
};

Method FindMethod(const Value& object, std::string_view name) {
  std::span<const NamedMethod> methods;
  if (object.is_text()) methods = kTextMethods;
  if (object.is_dict()) methods = kDictMethods;
  if (object.is_list()) methods = kListMethods;
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [&](const NamedMethod& method) { return method.name == name; });
  return found != methods.end() ? found->call : nullptr;
}

}  // namespace

bool HasMethod(const Value& object, std::string_view name) {
  return FindMethod(object, name) != nullptr;
}

bool CallMethod(Interpreter& interpreter, const Value& object, const std::string& name,
                const Arguments& arguments, Value* result) {
  const Method method = FindMethod(object, name);
  if (method == nullptr) return false;
  *result = method(interpreter.meter(), object, arguments);
  return true;
}

}  // namespace skipjack::jinja
