#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "text/jinja/interpreter.h"

namespace skipjack::jinja {
namespace {

using Filter = Value (*)(Interpreter&, const Value&, const Arguments&);

const Value* Given(const Arguments& arguments, std::size_t index, std::string_view name) {
  const Value* value = arguments.Find(index, name);
  return value != nullptr && !value->is_none() && !value->is_undefined() ? value : nullptr;
}

bool Flag(const Arguments& arguments, std::size_t index, std::string_view name, bool absent = false) {
  const Value* value = arguments.Find(index, name);
  return value != nullptr ? value->Truthy() : absent;
}

std::int64_t Integer(const Arguments& arguments, std::size_t index, std::string_view name,
                     std::int64_t absent) {
  const Value* value = Given(arguments, index, name);
  if (value == nullptr) return absent;
  if (!value->is_integral()) throw Failure(std::string(name) + " must be a whole number");
  return value->integer();
}

Text NeedText(const Value& value) {
  if (value.is_undefined()) return {};
  return ToText(value);
}

// "a.b.0": attributes and items one after another, as jinja's attribute= arguments read them.
Value Dotted(Interpreter& interpreter, Value value, const Value& path) {
  if (path.is_integral()) return interpreter.Subscript(value, path);
  std::string_view rest = path.bytes();
  while (!rest.empty()) {
    const std::size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    std::int64_t index = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool numeric = read.ec == std::errc() && read.ptr == part.data() + part.size();
    value = interpreter.Subscript(value, numeric ? Value(index) : Value::MakeText(part, true));
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
  }
  return value;
}

Value Key(Interpreter& interpreter, const Value& item, const Value* attribute, bool case_sensitive) {
  Value key = attribute != nullptr ? Dotted(interpreter, item, *attribute) : item;
  if (!case_sensitive && key.is_text()) return Value(MapCase(key.text(), false));
  return key;
}

Value Sorted(Interpreter& interpreter, List items, const Arguments& arguments, const Value* attribute,
             bool case_sensitive, bool reverse) {
  (void)arguments;
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items)
    keyed.emplace_back(Key(interpreter, item, attribute, case_sensitive), std::move(item));
  const auto cost = static_cast<std::size_t>(std::log2(static_cast<double>(keyed.size()) + 1));
  interpreter.Charge(keyed.size() * cost);
  std::stable_sort(keyed.begin(), keyed.end(), [reverse](const auto& a, const auto& b) {
    return reverse ? Compare(b.first, a.first) < 0 : Compare(a.first, b.first) < 0;
  });
  List out;
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return Value::MakeList(std::move(out));
}

Value Sort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  return Sorted(interpreter, interpreter.Items(input), arguments, Given(arguments, 2, "attribute"),
                Flag(arguments, 1, "case_sensitive"), Flag(arguments, 0, "reverse"));
}

Value DictSort(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (!input.is_dict()) throw Failure("dictsort needs a mapping");
  List pairs;
  for (const Pair& entry : input.dict().entries)
    pairs.push_back(Value::MakeList({entry.first, entry.second}, true));
  const Value* by = Given(arguments, 1, "by");
  const Value index(static_cast<std::int64_t>(by != nullptr && by->is_text() && by->bytes() == "value"));
  return Sorted(interpreter, std::move(pairs), arguments, &index, Flag(arguments, 0, "case_sensitive"),
                Flag(arguments, 2, "reverse"));
}

Value Unique(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  List out;
  List keys;
  for (Value& item : interpreter.Items(input)) {
    const Value key =
        Key(interpreter, item, Given(arguments, 1, "attribute"), Flag(arguments, 0, "case_sensitive"));
    interpreter.Charge(keys.size());
    if (std::any_of(keys.begin(), keys.end(), [&](const Value& seen) { return Equal(seen, key); })) continue;
    keys.push_back(key);
    out.push_back(std::move(item));
  }
  return Value::MakeList(std::move(out));
}

Value Join(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* separator = Given(arguments, 0, "d");
  const Text between = separator != nullptr ? ToText(*separator) : Text();
  const Value* attribute = Given(arguments, 1, "attribute");
  Text out;
  bool first = true;
  for (const Value& item : interpreter.Items(input)) {
    if (!first) out.Append(between);
    first = false;
    out.Append(NeedText(attribute != nullptr ? Dotted(interpreter, item, *attribute) : item));
    interpreter.ChargeBytes(out.size() > (std::size_t{1} << 20) ? out.size() : 64);
  }
  return Value(std::move(out));
}

Value Map(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  List out;
  const Value* attribute = arguments.positional.empty() ? arguments.Find(0, "attribute") : nullptr;
  if (attribute != nullptr) {
    const Value* absent = arguments.Find(1, "default");
    for (const Value& item : interpreter.Items(input)) {
      interpreter.Charge(1);
      Value value = Dotted(interpreter, item, *attribute);
      if (value.is_undefined() && absent != nullptr) value = *absent;
      out.push_back(std::move(value));
    }
    return Value::MakeList(std::move(out));
  }
  if (arguments.positional.empty() || !arguments.positional[0].is_text())
    throw Failure("map needs a filter's name");
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  for (const Value& item : interpreter.Items(input)) {
    interpreter.Charge(1);
    out.push_back(interpreter.ApplyFilter(arguments.positional[0].bytes(), item, rest));
  }
  return Value::MakeList(std::move(out));
}

// select, reject, selectattr, rejectattr: items whose (attribute's) test comes out as `wanted`.
Value Choose(Interpreter& interpreter, const Value& input, const Arguments& arguments, bool by_attribute,
             bool wanted) {
  const std::size_t test_at = by_attribute ? 1 : 0;
  if (by_attribute && arguments.positional.empty()) throw Failure("an attribute's name is needed");
  Arguments rest;
  if (arguments.positional.size() > test_at + 1) {
    rest.positional.assign(arguments.positional.begin() + static_cast<std::ptrdiff_t>(test_at) + 1,
                           arguments.positional.end());
  }
  List out;
  for (Value& item : interpreter.Items(input)) {
    interpreter.Charge(1);
    const Value subject = by_attribute ? Dotted(interpreter, item, arguments.positional[0]) : item;
    const bool holds = arguments.positional.size() > test_at
                           ? interpreter.ApplyTest(arguments.positional[test_at].bytes(), subject, rest)
                           : subject.Truthy();
    if (holds == wanted) out.push_back(std::move(item));
  }
  return Value::MakeList(std::move(out));
}

Value ToInteger(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value absent(Integer(arguments, 0, "default", 0));
  if (input.is_integral()) return Value(input.integer());
  double number = 0;
  if (input.is_float()) {
    number = input.number();
  } else if (input.is_text()) {
    const std::string trimmed = Strip(input.text(), nullptr, true, true).bytes();
    const char* begin = trimmed.data() + (trimmed.starts_with('+') ? 1 : 0);
    const char* end = trimmed.data() + trimmed.size();
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

Value ToFloat(Interpreter&, const Value& input, const Arguments& arguments) {
  if (input.is_number()) return Value(input.number());
  const Value* absent = arguments.Find(0, "default");
  const Value fallback = absent != nullptr ? *absent : Value(0.0);
  if (!input.is_text()) return fallback;
  const std::string trimmed = Strip(input.text(), nullptr, true, true).bytes();
  double number = 0;
  const auto read = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  return read.ec == std::errc() && read.ptr == trimmed.data() + trimmed.size() ? Value(number) : fallback;
}

Value Length(Interpreter& interpreter, const Value& input, const Arguments&) {
  if (input.is_text()) {
    interpreter.ChargeBytes(input.text().size());
    return Value(static_cast<std::int64_t>(CodePointCount(input.bytes())));
  }
  if (input.is_list()) return Value(static_cast<std::int64_t>(input.list().size()));
  if (input.is_dict()) return Value(static_cast<std::int64_t>(input.dict().entries.size()));
  if (input.is_undefined()) return Value(std::int64_t{0});
  throw Failure(std::string("a ") + input.TypeName() + " has no length");
}

Value Default(Interpreter&, const Value& input, const Arguments& arguments) {
  const bool use = input.is_undefined() || (Flag(arguments, 1, "boolean") && !input.Truthy());
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
  Text out = ToJson(input, style);
  interpreter.ChargeBytes(out.size());
  return Value(std::move(out));
}

Value Indent(Interpreter&, const Value& input, const Arguments& arguments) {
  const Value* width = Given(arguments, 0, "width");
  Text margin;
  if (width != nullptr && width->is_text()) {
    margin = width->text();
  } else {
    const std::int64_t count = width != nullptr && width->is_integral() ? width->integer() : 4;
    if (count < 0 || count > 256) throw Failure("width must lie in 0..256");
    margin = Text::Trusted(std::string(static_cast<std::size_t>(count), ' '));
  }
  const bool first = Flag(arguments, 1, "first");
  const bool blank = Flag(arguments, 2, "blank");
  const std::string newline = "\n";
  const std::vector<Text> lines = Split(NeedText(input), &newline, -1, false);
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append("\n", true);
    if ((i > 0 || first) && (blank || !lines[i].empty())) out.Append(margin);
    out.Append(lines[i]);
  }
  return Value(std::move(out));
}

// "%s has %d" | format(a, b): the conversions %s, %d, %i, %f (with precision), %r and %%.
Value Format(Interpreter&, const Value& input, const Arguments& arguments) {
  const Text pattern = NeedText(input);
  const std::string& bytes = pattern.bytes();
  Text out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != '%') {
      out.Append(pattern.Substring(at, 1));
      continue;
    }
    int precision = 6;
    ++at;
    if (at < bytes.size() && bytes[at] == '.') {
      const auto read = std::from_chars(bytes.data() + at + 1, bytes.data() + bytes.size(), precision);
      if (read.ec != std::errc() || precision < 0 || precision > 30) throw Failure("format: bad precision");
      at = static_cast<std::size_t>(read.ptr - bytes.data());
    }
    if (at >= bytes.size()) throw Failure("format: the pattern ends in '%'");
    if (bytes[at] == '%') {
      out.Append("%", true);
      continue;
    }
    if (next >= arguments.positional.size()) throw Failure("format: too few values");
    const Value& value = arguments.positional[next++];
    if (bytes[at] == 's') {
      out.Append(ToText(value));
    } else if (bytes[at] == 'r') {
      out.Append(ToRepr(value));
    } else if ((bytes[at] == 'd' || bytes[at] == 'i') && value.is_number()) {
      out.Append(std::to_string(static_cast<std::int64_t>(value.number())), false);
    } else if (bytes[at] == 'f' && value.is_number()) {
      char buffer[400];
      const auto end =
          std::to_chars(buffer, buffer + sizeof(buffer), value.number(), std::chars_format::fixed, precision);
      out.Append(std::string_view(buffer, static_cast<std::size_t>(end.ptr - buffer)), false);
    } else {
      throw Failure(std::string("format: '%") + bytes[at] + "' does not go with a " + value.TypeName());
    }
  }
  return Value(std::move(out));
}

Value Round(Interpreter&, const Value& input, const Arguments& arguments) {
  if (!input.is_number()) throw Failure("round needs a number");
  const std::int64_t precision = Integer(arguments, 0, "precision", 0);
  const Value* method = Given(arguments, 1, "method");
  const std::string name = method != nullptr && method->is_text() ? method->bytes() : "common";
  const double scale = std::pow(10.0, static_cast<double>(std::clamp<std::int64_t>(precision, -15, 15)));
  const double scaled = input.number() * scale;
  if (name == "ceil") return Value(std::ceil(scaled) / scale);
  if (name == "floor") return Value(std::floor(scaled) / scale);
  return Value(std::nearbyint(scaled) / scale);
}

Value Extreme(Interpreter& interpreter, const Value& input, const Arguments& arguments, bool want_max) {
  const List items = interpreter.Items(input);
  if (items.empty()) return Value::MakeUndefined("the extreme of nothing");
  const Value* attribute = Given(arguments, 1, "attribute");
  const bool case_sensitive = Flag(arguments, 0, "case_sensitive");
  const Value* best = &items[0];
  for (const Value& item : items) {
    const int order = Compare(Key(interpreter, item, attribute, case_sensitive),
                              Key(interpreter, *best, attribute, case_sensitive));
    if (want_max ? order > 0 : order < 0) best = &item;
  }
  return *best;
}

Value Sum(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* attribute = Given(arguments, 0, "attribute");
  const Value* start = Given(arguments, 1, "start");
  Value total = start != nullptr ? *start : Value(std::int64_t{0});
  for (const Value& item : interpreter.Items(input)) {
    total =
        Arithmetic("+", total, attribute != nullptr ? Dotted(interpreter, item, *attribute) : item, 1u << 20);
  }
  return total;
}

Value Batch(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const std::int64_t count = Integer(arguments, 0, "linecount", 0);
  if (count < 1) throw Failure("batch needs a count of at least 1");
  const Value* fill = Given(arguments, 1, "fill_with");
  const List items = interpreter.Items(input);
  const auto width = static_cast<std::size_t>(count);
  List out;
  for (std::size_t at = 0; at < items.size(); at += width) {
    List line(items.begin() + static_cast<std::ptrdiff_t>(at),
              items.begin() + static_cast<std::ptrdiff_t>(std::min(at + width, items.size())));
    interpreter.Charge(fill != nullptr ? width : line.size());
    while (fill != nullptr && line.size() < width) line.push_back(*fill);
    out.push_back(Value::MakeList(std::move(line)));
  }
  return Value::MakeList(std::move(out));
}

Value GroupBy(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  const Value* attribute = Given(arguments, 0, "attribute");
  if (attribute == nullptr) throw Failure("groupby needs an attribute");
  const Value sorted = Sorted(interpreter, interpreter.Items(input), arguments, attribute, false, false);
  std::vector<std::pair<Value, List>> groups;
  for (const Value& item : sorted.list()) {
    Value key = Dotted(interpreter, item, *attribute);
    if (groups.empty() || !Equal(groups.back().first, key)) groups.emplace_back(std::move(key), List());
    groups.back().second.push_back(item);
  }
  List out;
  for (auto& [key, items] : groups)
    out.push_back(Value::MakeList({key, Value::MakeList(std::move(items))}, true));
  return Value::MakeList(std::move(out));
}

Value End(Interpreter& interpreter, const Value& input, bool last) {
  const List items = interpreter.Items(input);
  if (items.empty()) return Value::MakeUndefined(last ? "the last of nothing" : "the first of nothing");
  return last ? items.back() : items.front();
}

Value Pairs(Interpreter&, const Value& input, const Arguments&) {
  if (input.is_undefined()) return Value::MakeList({});
  if (!input.is_dict()) throw Failure("items needs a mapping");
  List out;
  for (const Pair& entry : input.dict().entries)
    out.push_back(Value::MakeList({entry.first, entry.second}, true));
  return Value::MakeList(std::move(out));
}

const std::unordered_map<std::string_view, Filter>& Filters() {
  static const std::unordered_map<std::string_view, Filter> filters = {
      {"trim",
       [](Interpreter&, const Value& v, const Arguments& a) {
         const Value* characters = Given(a, 0, "chars");
         return Value(Strip(NeedText(v), characters != nullptr ? &characters->bytes() : nullptr, true, true));
       }},
      {"upper",
       [](Interpreter&, const Value& v, const Arguments&) { return Value(MapCase(NeedText(v), true)); }},
      {"lower",
       [](Interpreter&, const Value& v, const Arguments&) { return Value(MapCase(NeedText(v), false)); }},
      {"title", [](Interpreter&, const Value& v, const Arguments&) { return Value(Title(NeedText(v))); }},
      {"capitalize",
       [](Interpreter&, const Value& v, const Arguments&) { return Value(Capitalize(NeedText(v))); }},
      {"string", [](Interpreter&, const Value& v, const Arguments&) { return Value(NeedText(v)); }},
      {"safe", [](Interpreter&, const Value& v, const Arguments&) { return v; }},
      {"replace",
       [](Interpreter&, const Value& v, const Arguments& a) {
         if (a.positional.size() < 2) throw Failure("replace needs what to replace and with what");
         return Value(Replace(NeedText(v), ToText(a.positional[0]), ToText(a.positional[1]),
                              Integer(a, 2, "count", -1)));
       }},
      {"reverse",
       [](Interpreter& i, const Value& v, const Arguments&) {
         if (v.is_text()) return Value(Reverse(v.text()));
         List items = i.Items(v);
         std::reverse(items.begin(), items.end());
         return Value::MakeList(std::move(items));
       }},
      {"list", [](Interpreter& i, const Value& v, const Arguments&) { return Value::MakeList(i.Items(v)); }},
      {"length", Length},
      {"count", Length},
      {"first", [](Interpreter& i, const Value& v, const Arguments&) { return End(i, v, false); }},
      {"last", [](Interpreter& i, const Value& v, const Arguments&) { return End(i, v, true); }},
      {"default", Default},
      {"d", Default},
      {"tojson", Json},
      {"int", ToInteger},
      {"float", ToFloat},
      {"abs",
       [](Interpreter&, const Value& v, const Arguments&) {
         if (!v.is_number()) throw Failure("abs needs a number");
         const bool negative = v.number() < 0;
         return negative ? Arithmetic("-", Value(std::int64_t{0}), v, 0) : v;
       }},
      {"round", Round},
      {"join", Join},
      {"map", Map},
      {"select",
       [](Interpreter& i, const Value& v, const Arguments& a) { return Choose(i, v, a, false, true); }},
      {"reject",
       [](Interpreter& i, const Value& v, const Arguments& a) { return Choose(i, v, a, false, false); }},
      {"selectattr",
       [](Interpreter& i, const Value& v, const Arguments& a) { return Choose(i, v, a, true, true); }},
      {"rejectattr",
       [](Interpreter& i, const Value& v, const Arguments& a) { return Choose(i, v, a, true, false); }},
      {"sort", Sort},
      {"dictsort", DictSort},
      {"unique", Unique},
      {"items", Pairs},
      {"indent", Indent},
      {"format", Format},
      {"sum", Sum},
      {"min", [](Interpreter& i, const Value& v, const Arguments& a) { return Extreme(i, v, a, false); }},
      {"max", [](Interpreter& i, const Value& v, const Arguments& a) { return Extreme(i, v, a, true); }},
      {"batch", Batch},
      {"groupby", GroupBy},
      {"wordcount",
       [](Interpreter&, const Value& v, const Arguments&) {
         return Value(static_cast<std::int64_t>(Split(NeedText(v), nullptr, -1, false).size()));
       }},
  };
  return filters;
}

}  // namespace

Value Interpreter::ApplyFilter(const std::string& name, const Value& input, const Arguments& arguments) {
  const auto found = Filters().find(name);
  if (found == Filters().end()) throw Failure("the filter '" + name + "' is not supported");
  if (input.is_text()) ChargeBytes(input.text().size());
  Value result = found->second(*this, input, arguments);
  if (result.is_text()) ChargeBytes(result.text().size());
  return result;
}

}  // namespace skipjack::jinja
