// Methods of strings, lists and mappings, as Python has them. Values are immutable, so append and update are
// absent.
#include <algorithm>
#include <array>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {
namespace {

using Method = Value (*)(const Value& object, const Arguments& arguments);

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

std::int64_t IntegerArgument(const Arguments& arguments, std::size_t index, std::string_view name,
                             std::int64_t absent) {
  const Value* value = arguments.Find(index, name);
  if (value == nullptr || value->is_none()) return absent;
  if (!value->is_integral()) throw Failure(std::string(name) + " must be a whole number");
  return value->integer();
}

Value ListOf(std::vector<Text> texts) {
  List items;
  for (Text& text : texts) items.push_back(Value(std::move(text)));
  return Value::MakeList(std::move(items));
}

Value SplitWith(const Value& object, const Arguments& arguments, bool from_right) {
  const std::string* separator = TextArgument(arguments, 0, "sep");
  if (separator != nullptr && separator->empty()) throw Failure("an empty separator splits nothing");
  return ListOf(Split(object.text(), separator, IntegerArgument(arguments, 1, "maxsplit", -1), from_right));
}

// startswith and endswith take one string or a tuple of them.
template <typename Matches>
bool AnyAffix(const Arguments& arguments, Matches matches) {
  const Value* value = arguments.Find(0, "prefix");
  if (value != nullptr && value->is_list()) {
    return std::any_of(value->list().begin(), value->list().end(),
                       [&](const Value& item) { return item.is_text() && matches(item.bytes()); });
  }
  return matches(NeedText(arguments, 0, "prefix").bytes());
}

template <typename Predicate>
Value AllBytes(const Value& object, Predicate predicate) {
  const std::string& bytes = object.bytes();
  return Value(!bytes.empty() && std::all_of(bytes.begin(), bytes.end(), predicate));
}

std::int64_t FindIn(const Value& object, const Arguments& arguments) {
  const std::size_t found = object.bytes().find(NeedText(arguments, 0, "sub").bytes());
  if (found == std::string::npos) return -1;
  return static_cast<std::int64_t>(CodePointCount(std::string_view(object.bytes()).substr(0, found)));
}

std::int64_t CountIn(const Value& object, const Arguments& arguments) {
  const std::string& needle = NeedText(arguments, 0, "sub").bytes();
  if (needle.empty()) return static_cast<std::int64_t>(CodePointCount(object.bytes())) + 1;
  std::int64_t count = 0;
  for (std::size_t at = object.bytes().find(needle); at != std::string::npos;
       at = object.bytes().find(needle, at + needle.size())) {
    ++count;
  }
  return count;
}

Value WithoutAffix(const Value& object, const Arguments& arguments, bool prefix) {
  const Text& text = object.text();
  const std::string& affix = NeedText(arguments, 0, prefix ? "prefix" : "suffix").bytes();
  if (affix.empty() || affix.size() > text.size()) return object;
  const std::size_t at = prefix ? 0 : text.size() - affix.size();
  if (text.bytes().compare(at, affix.size(), affix) != 0) return object;
  return Value(prefix ? text.Substring(affix.size()) : text.Substring(0, at));
}

constexpr std::array<NamedMethod, 24> kTextMethods = {{
    {"strip",
     [](const Value& o, const Arguments& a) {
       return Value(Strip(o.text(), TextArgument(a, 0, "chars"), true, true));
     }},
    {"lstrip",
     [](const Value& o, const Arguments& a) {
       return Value(Strip(o.text(), TextArgument(a, 0, "chars"), true, false));
     }},
    {"rstrip",
     [](const Value& o, const Arguments& a) {
       return Value(Strip(o.text(), TextArgument(a, 0, "chars"), false, true));
     }},
    {"split", [](const Value& o, const Arguments& a) { return SplitWith(o, a, false); }},
    {"rsplit", [](const Value& o, const Arguments& a) { return SplitWith(o, a, true); }},
    {"splitlines", [](const Value& o, const Arguments&) { return ListOf(SplitLines(o.text())); }},
    {"lower", [](const Value& o, const Arguments&) { return Value(MapCase(o.text(), false)); }},
    {"upper", [](const Value& o, const Arguments&) { return Value(MapCase(o.text(), true)); }},
    {"title", [](const Value& o, const Arguments&) { return Value(Title(o.text())); }},
    {"capitalize", [](const Value& o, const Arguments&) { return Value(Capitalize(o.text())); }},
    {"startswith",
     [](const Value& o, const Arguments& a) {
       return Value(AnyAffix(a, [&](const std::string& affix) { return o.bytes().starts_with(affix); }));
     }},
    {"endswith",
     [](const Value& o, const Arguments& a) {
       return Value(AnyAffix(a, [&](const std::string& affix) { return o.bytes().ends_with(affix); }));
     }},
    {"replace",
     [](const Value& o, const Arguments& a) {
       return Value(Replace(o.text(), NeedText(a, 0, "old"), NeedText(a, 1, "new"),
                            IntegerArgument(a, 2, "count", -1)));
     }},
    {"find", [](const Value& o, const Arguments& a) { return Value(FindIn(o, a)); }},
    {"index",
     [](const Value& o, const Arguments& a) {
       const std::int64_t at = FindIn(o, a);
       if (at < 0) throw Failure("substring not found");
       return Value(at);
     }},
    {"count", [](const Value& o, const Arguments& a) { return Value(CountIn(o, a)); }},
    {"removeprefix", [](const Value& o, const Arguments& a) { return WithoutAffix(o, a, true); }},
    {"removesuffix", [](const Value& o, const Arguments& a) { return WithoutAffix(o, a, false); }},
    {"isdigit", [](const Value& o,
                   const Arguments&) { return AllBytes(o, [](char c) { return c >= '0' && c <= '9'; }); }},
    {"isspace",
     [](const Value& o, const Arguments&) {
       return Value(!o.text().empty() && Strip(o.text(), nullptr, true, true).empty());
     }},
    {"isalpha",
     [](const Value& o, const Arguments&) {
       return AllBytes(o,
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80); });
     }},
    {"isupper",
     [](const Value& o, const Arguments&) {
       return Value(MapCase(o.text(), true).bytes() == o.bytes() &&
                    MapCase(o.text(), false).bytes() != o.bytes());
     }},
    {"islower",
     [](const Value& o, const Arguments&) {
       return Value(MapCase(o.text(), false).bytes() == o.bytes() &&
                    MapCase(o.text(), true).bytes() != o.bytes());
     }},
    {"join",
     [](const Value& o, const Arguments& a) {
       const Value* items = a.Find(0, "iterable");
       if (items == nullptr || !items->is_list()) throw Failure("join needs a list");
       Text out;
       for (std::size_t i = 0; i < items->list().size(); ++i) {
         if (i > 0) out.Append(o.text());
         if (!items->list()[i].is_text()) throw Failure("join needs strings");
         out.Append(items->list()[i].text());
       }
       return Value(std::move(out));
     }},
}};

Value Listed(const Dict& dict, bool keys, bool values) {
  List items;
  for (const Pair& entry : dict.entries) {
    if (keys && values) {
      items.push_back(Value::MakeList({entry.first, entry.second}, true));
    } else {
      items.push_back(keys ? entry.first : entry.second);
    }
  }
  return Value::MakeList(std::move(items));
}

constexpr std::array<NamedMethod, 5> kDictMethods = {{
    {"items", [](const Value& o, const Arguments&) { return Listed(o.dict(), true, true); }},
    {"keys", [](const Value& o, const Arguments&) { return Listed(o.dict(), true, false); }},
    {"values", [](const Value& o, const Arguments&) { return Listed(o.dict(), false, true); }},
    {"copy", [](const Value& o, const Arguments&) { return o; }},
    {"get",
     [](const Value& o, const Arguments& a) {
       if (a.positional.empty()) throw Failure("get needs a key");
       if (const Value* found = o.dict().Find(a.positional[0])) return *found;
       const Value* absent = a.Find(1, "default");
       return absent != nullptr ? *absent : Value();
     }},
}};

constexpr std::array<NamedMethod, 2> kListMethods = {{
    {"index",
     [](const Value& o, const Arguments& a) {
       for (std::size_t i = 0; !a.positional.empty() && i < o.list().size(); ++i) {
         if (Equal(o.list()[i], a.positional[0])) return Value(static_cast<std::int64_t>(i));
       }
       throw Failure("the value is not in the list");
     }},
    {"count",
     [](const Value& o, const Arguments& a) {
       if (a.positional.empty()) throw Failure("count needs a value");
       return Value(
           static_cast<std::int64_t>(std::count_if(o.list().begin(), o.list().end(), [&](const Value& item) {
             return Equal(item, a.positional[0]);
           })));
     }},
}};

template <std::size_t N>
Method Lookup(const std::array<NamedMethod, N>& methods, std::string_view name) {
  for (const NamedMethod& method : methods) {
    if (method.name == name) return method.call;
  }
  return nullptr;
}

Method FindMethod(const Value& object, std::string_view name) {
  if (object.is_text()) return Lookup(kTextMethods, name);
  if (object.is_dict()) return Lookup(kDictMethods, name);
  if (object.is_list()) return Lookup(kListMethods, name);
  return nullptr;
}

}  // namespace

bool HasMethod(const Value& object, std::string_view name) {
  return FindMethod(object, name) != nullptr;
}

bool CallMethod(Interpreter& interpreter, const Value& object, const std::string& name,
                const Arguments& arguments, Value* result) {
  const Method method = FindMethod(object, name);
  if (method == nullptr) return false;
  if (object.is_text()) interpreter.ChargeBytes(object.text().size());
  if (object.is_list()) interpreter.Charge(object.list().size());
  if (object.is_dict()) interpreter.Charge(object.dict().entries.size());
  *result = method(object, arguments);
  if (result->is_text()) interpreter.ChargeBytes(result->text().size());
  return true;
}

}  // namespace skipjack::jinja
