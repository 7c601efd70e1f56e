// Filters of lists and mappings.
#include <algorithm>
#include <charconv>

#include "text/jinja/filters.h"

namespace skipjack::jinja {
namespace {

// "a.b.0": attributes and items one after another, as jinja's attribute= arguments read them.
Value Dotted(Interpreter& interpreter, Value value, const Value& path) {
  if (path.is_integral()) return interpreter.Subscript(value, path);
  if (!path.is_text()) throw Failure(std::string("a ") + path.TypeName() + " names no attribute");
  interpreter.meter().Read(path.bytes().size());
  std::string_view rest = path.bytes();
  while (!rest.empty()) {
    interpreter.meter().Step();
    const std::size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    interpreter.meter().Grow(Meter::kTextBytes + part.size());
    std::int64_t index = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool numeric = read.ec == std::errc() && read.ptr == part.data() + part.size();
    value = interpreter.Subscript(value, numeric ? Value(index) : Value::MakeText(part, true));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  return value;
}

Value ItemOrAttribute(Interpreter& interpreter, const Value& item, const Value* attribute) {
  return attribute != nullptr ? Dotted(interpreter, item, *attribute) : item;
}

Value Key(Interpreter& interpreter, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = ItemOrAttribute(interpreter, item, attribute);
  if (!case_sensitive && key.is_text()) return Value(MapCase(interpreter.meter(), key.text(), false));
  return key;
}

struct SortStyle {
  const Value* attribute = nullptr;
  bool case_sensitive = false;
  bool reverse = false;
};

Value Sorted(Interpreter& interpreter, List items, const SortStyle& style) {
  Meter& meter = interpreter.meter();
  meter.GrowItems(2 * items.size());
  std::vector<std::pair<Value, Value>> keyed;
  keyed.reserve(items.size());
  for (Value& item : items) {
    Value key = Key(interpreter, item, style.attribute, style.case_sensitive);
    keyed.emplace_back(std::move(key), std::move(item));
  }
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return style.reverse ? Compare(meter, b.first, a.first) < 0 : Compare(meter, a.first, b.first) < 0;
  });
  List out;
  for (auto& [key, item] : keyed) Push(meter, std::move(item), &out);
  return Value::MakeList(std::move(out));
}

Value Sort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return Sorted(interpreter, interpreter.Items(input),
                {.attribute = GivenArgument(arguments, 2, "attribute"),
                 .case_sensitive = FlagArgument(arguments, 1, "case_sensitive"),
                 .reverse = FlagArgument(arguments, 0, "reverse")});
}

List PairsOf(Meter& meter, const Dict& dict) {
  List pairs;
  for (const Pair& entry : dict.entries) {
    meter.GrowItems(2);
    Push(meter, Value::MakeList({entry.first, entry.second}, true), &pairs);
  }
  return pairs;
}

Value Pairs(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (input.is_undefined()) return Value::MakeList({});
  if (!input.is_dict()) throw Failure("items needs a mapping");
  return Value::MakeList(PairsOf(interpreter.meter(), input.dict()));
}

Value DictSort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!input.is_dict()) throw Failure("dictsort needs a mapping");
  const Value* by = GivenArgument(arguments, 1, "by");
  const Value index(static_cast<std::int64_t>(by != nullptr && by->is_text() && by->bytes() == "value"));
  return Sorted(interpreter, PairsOf(interpreter.meter(), input.dict()),
                {.attribute = &index,
                 .case_sensitive = FlagArgument(arguments, 0, "case_sensitive"),
                 .reverse = FlagArgument(arguments, 2, "reverse")});
}

Value Unique(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  const Value* attribute = GivenArgument(arguments, 1, "attribute");
  const bool case_sensitive = FlagArgument(arguments, 0, "case_sensitive");
  List out;
  List keys;
  for (Value& item : interpreter.Items(input)) {
    Value key = Key(interpreter, item, attribute, case_sensitive);
    const auto same = [&](const Value& seen) { return Equal(meter, seen, key); };
    if (std::any_of(keys.begin(), keys.end(), same)) continue;
    Push(meter, std::move(key), &keys);
    Push(meter, std::move(item), &out);
  }
  return Value::MakeList(std::move(out));
}

Value Join(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  const Value* separator = GivenArgument(arguments, 0, "d");
  const Text between = separator != nullptr ? ToText(meter, *separator) : Text();
  const Value* attribute = GivenArgument(arguments, 1, "attribute");
  Text out;
  bool first = true;
  for (const Value& item : interpreter.Items(input)) {
    meter.Step();
    if (!first) out.Append(meter, between);
    first = false;
    AppendText(meter, ItemOrAttribute(interpreter, item, attribute), &out);
  }
  return Value(std::move(out));
}

Value MapAttribute(Interpreter& interpreter, const Value& input, const Value& attribute,
                   const Value* absent) {
  List out;
  for (const Value& item : interpreter.Items(input)) {
    interpreter.meter().Step();
    Value value = Dotted(interpreter, item, attribute);
    if (value.is_undefined() && absent != nullptr) value = *absent;
    Push(interpreter.meter(), std::move(value), &out);
  }
  return Value::MakeList(std::move(out));
}

// The arguments from `begin` on.
Arguments Rest(Meter& meter, const Arguments& arguments, std::size_t begin) {
  Arguments rest;
  for (std::size_t i = begin; i < arguments.positional.size(); ++i) {
    Push(meter, arguments.positional[i], &rest.positional);
  }
  return rest;
}

Value Map(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  const Value* attribute = arguments.positional.empty() ? arguments.Find(0, "attribute") : nullptr;
  if (attribute != nullptr) return MapAttribute(interpreter, input, *attribute, arguments.Find(1, "default"));
  if (arguments.positional.empty() || !arguments.positional[0].is_text())
    throw Failure("map needs a filter's name");
  Arguments rest = Rest(meter, arguments, 1);
  meter.GrowItems(2 * arguments.named.size());
  rest.named = arguments.named;
  List out;
  for (const Value& item : interpreter.Items(input)) {
    meter.Step();
    Push(meter, interpreter.ApplyFilter(arguments.positional[0].bytes(), item, rest), &out);
  }
  return Value::MakeList(std::move(out));
}

// select, reject, selectattr, rejectattr: items whose (attribute's) test comes out as wanted.
template <bool kByAttribute, bool kWanted>
Value Choose(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  constexpr std::size_t kTest = kByAttribute ? 1 : 0;
  if (kByAttribute && arguments.positional.empty()) throw Failure("an attribute's name is needed");
  const Value* test = arguments.positional.size() > kTest ? &arguments.positional[kTest] : nullptr;
  if (test != nullptr && !test->is_text()) throw Failure("a test is named by a string");
  const Arguments rest = Rest(interpreter.meter(), arguments, kTest + 1);
  List out;
  for (Value& item : interpreter.Items(input)) {
    interpreter.meter().Step();
    const Value subject = kByAttribute ? Dotted(interpreter, item, arguments.positional[0]) : item;
    const bool holds =
        test != nullptr ? interpreter.ApplyTest(test->bytes(), subject, rest) : subject.Truthy();
    if (holds == kWanted) Push(interpreter.meter(), std::move(item), &out);
  }
  return Value::MakeList(std::move(out));
}

Value Length(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (input.is_text()) {
    interpreter.meter().Read(input.text().size());
    return Value(static_cast<std::int64_t>(CodePointCount(input.bytes())));
  }
  if (input.is_list()) return Value(static_cast<std::int64_t>(input.list().size()));
  if (input.is_dict()) return Value(static_cast<std::int64_t>(input.dict().entries.size()));
  if (input.is_undefined()) return Value(std::int64_t{0});
  throw Failure(std::string("a ") + input.TypeName() + " has no length");
}

template <bool kWantMaximum>
Value Extreme(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const List items = interpreter.Items(input);
  if (items.empty()) return Value::MakeUndefined("the extreme of nothing");
  const Value* attribute = GivenArgument(arguments, 1, "attribute");
  const bool case_sensitive = FlagArgument(arguments, 0, "case_sensitive");
  const Value* best = &items[0];
  Value best_key = Key(interpreter, items[0], attribute, case_sensitive);
  for (const Value& item : items) {
    Value key = Key(interpreter, item, attribute, case_sensitive);
    const int order = Compare(interpreter.meter(), key, best_key);
    if (kWantMaximum ? order <= 0 : order >= 0) continue;
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}

Value Sum(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* attribute = GivenArgument(arguments, 0, "attribute");
  const Value* start = GivenArgument(arguments, 1, "start");
  Value total = start != nullptr ? *start : Value(std::int64_t{0});
  for (const Value& item : interpreter.Items(input)) {
    interpreter.meter().Step();
    total = Arithmetic(interpreter.meter(), "+", total, ItemOrAttribute(interpreter, item, attribute));
  }
  return total;
}

Value Batch(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  const std::int64_t count = IntegerArgument(arguments, 0, "linecount", 0);
  if (count < 1) throw Failure("batch needs a count of at least 1");
  const Value* fill = GivenArgument(arguments, 1, "fill_with");
  const List items = interpreter.Items(input);
  const auto width = static_cast<std::size_t>(count);
  List out;
  for (std::size_t at = 0; at < items.size(); at += std::min(width, items.size() - at)) {
    const std::size_t taken = std::min(width, items.size() - at);
    meter.GrowItems(fill != nullptr ? width : taken);
    const auto begin = items.begin() + static_cast<std::ptrdiff_t>(at);
    List line(begin, begin + static_cast<std::ptrdiff_t>(taken));
    if (fill != nullptr) line.resize(width, *fill);
    Push(meter, Value::MakeList(std::move(line)), &out);
  }
  return Value::MakeList(std::move(out));
}

Value GroupBy(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  const Value* attribute = GivenArgument(arguments, 0, "attribute");
  if (attribute == nullptr) throw Failure("groupby needs an attribute");
  const Value sorted = Sorted(interpreter, interpreter.Items(input), {.attribute = attribute});
  std::vector<std::pair<Value, List>> groups;
  for (const Value& item : sorted.list()) {
    Value key = Dotted(interpreter, item, *attribute);
    if (groups.empty() || !Equal(meter, groups.back().first, key)) {
      meter.GrowItems(4);
      groups.emplace_back(std::move(key), List());
    }
    Push(meter, item, &groups.back().second);
  }
  List out;
  for (auto& [key, items] : groups)
    Push(meter, Value::MakeList({key, Value::MakeList(std::move(items))}, true), &out);
  return Value::MakeList(std::move(out));
}

template <bool kLast>
Value End(Interpreter& interpreter, const Value& input, const Arguments&) {
  const List items = interpreter.Items(input);
  if (items.empty()) return Value::MakeUndefined(kLast ? "the last of nothing" : "the first of nothing");
  return kLast ? items.back() : items.front();
}

Value Reversed(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (input.is_text()) return Value(Reverse(interpreter.meter(), input.text()));
  List items = interpreter.Items(input);
  std::reverse(items.begin(), items.end());
  return Value::MakeList(std::move(items));
}

Value ToList(Interpreter& interpreter, const Value& input, const Arguments&) {
  return Value::MakeList(interpreter.Items(input));
}

constexpr NamedFilter kFilters[] = {
    {"batch", Batch},
    {"count", Length},
    {"dictsort", DictSort},
    {"first", End<false>},
    {"groupby", GroupBy},
    {"items", Pairs},
    {"join", Join},
    {"last", End<true>},
    {"length", Length},
    {"list", ToList},
    {"map", Map},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"reject", Choose<false, false>},
    {"rejectattr", Choose<true, false>},
    {"reverse", Reversed},
    {"select", Choose<false, true>},
    {"selectattr", Choose<true, true>},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

std::span<const NamedFilter> SequenceFilters() {
  return kFilters;
}

}  // namespace skipjack::jinja
