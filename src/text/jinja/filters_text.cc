// Filters that make texts.
#include <algorithm>
#include <charconv>

#include "text/jinja/filters.h"

namespace skipjack::jinja {
namespace {

// Applies a function of the meter and the input's text.
template <auto kMake>
Value OfText(Interpreter& interpreter, const Value& input, const Arguments&) {
  Text made;
  return Value(kMake(interpreter.meter(), TextOf(interpreter.meter(), input, &made)));
}

Text Upper(Meter& meter, const Text& text) {
  return MapCase(meter, text, true);
}
Text Lower(Meter& meter, const Text& text) {
  return MapCase(meter, text, false);
}

Value Trim(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  const Value* characters = GivenArgument(arguments, 0, "chars");
  if (characters != nullptr && !characters->is_text()) throw Failure("chars must be a string");
  Text made;
  const std::string* set = characters != nullptr ? &characters->bytes() : nullptr;
  return Value(Strip(meter, TextOf(meter, input, &made), set, true, true));
}

Value String(Interpreter& interpreter, const Value& input, const Arguments&) {
  return input.is_text() ? input : Value(ToText(interpreter.meter(), input));
}

Value Safe(Interpreter&, const Value& input, const Arguments&) {
  return input;
}

Value ReplaceAll(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  if (arguments.positional.size() < 2) throw Failure("replace needs what to replace and with what");
  Meter& meter = interpreter.meter();
  Text made, made_from, made_to;
  const Text& text = TextOf(meter, input, &made);
  const Text& from = TextOf(meter, arguments.positional[0], &made_from);
  const Text& to = TextOf(meter, arguments.positional[1], &made_to);
  return Value(Replace(meter, text, from, to, IntegerArgument(arguments, 2, "count", -1)));
}

Text Margin(const Value* width) {
  if (width != nullptr && width->is_text()) return width->text();
  const std::int64_t count = width != nullptr && width->is_integral() ? width->integer() : 4;
  if (count < 0 || count > 256) throw Failure("width must lie in 0..256");
  return Text::Trusted(std::string(static_cast<std::size_t>(count), ' '));
}

Value Indent(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  const Value* width = GivenArgument(arguments, 0, "width");
  meter.Grow(width != nullptr && width->is_text() ? width->text().size() : 0);
  const Text margin = Margin(width);
  const bool first = FlagArgument(arguments, 1, "first");
  const bool blank = FlagArgument(arguments, 2, "blank");
  const std::string newline = "\n";
  Text made;
  const std::vector<Text> lines = Split(meter, TextOf(meter, input, &made), &newline, -1, false);
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.Append(meter, "\n", true);
    if ((i > 0 || first) && (blank || !lines[i].empty())) out.Append(meter, margin);
    out.Append(meter, lines[i]);
  }
  return Value(std::move(out));
}

// One conversion of format, beside %%.
void AppendConversion(Meter& meter, char conversion, int precision, const Value& value, Text* out) {
  if (conversion == 's') return AppendText(meter, value, out);
  if (conversion == 'r') return AppendRepr(meter, value, out);
  if ((conversion == 'd' || conversion == 'i') && value.is_integral()) {
    return out->Append(meter, std::to_string(value.integer()), false);
  }
  if ((conversion == 'd' || conversion == 'i') && value.is_float()) {
    if (!(value.number() > -9e18 && value.number() < 9e18)) throw Failure("format: no number for '%d'");
    return out->Append(meter, std::to_string(static_cast<std::int64_t>(value.number())), false);
  }
  if (conversion == 'f' && value.is_number()) {
    char buffer[400];
    const auto end =
        std::to_chars(buffer, buffer + sizeof(buffer), value.number(), std::chars_format::fixed, precision);
    return out->Append(meter, std::string_view(buffer, static_cast<std::size_t>(end.ptr - buffer)), false);
  }
  throw Failure(std::string("format: '%") + conversion + "' does not go with a " + value.TypeName());
}

// "%s has %d" | format(a, b): the conversions %s, %d, %i, %f (with precision), %r and %%.
Value Format(Interpreter& interpreter, const Value& input, const Arguments& arguments) {
  Meter& meter = interpreter.meter();
  Text made;
  const Text& pattern = TextOf(meter, input, &made);
  const std::string& bytes = pattern.bytes();
  meter.Read(bytes.size());
  Text out;
  std::size_t next = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const std::size_t percent = std::min(bytes.find('%', at), bytes.size());
    out.AppendPart(meter, pattern, at, percent - at);
    at = percent + 1;
    if (percent == bytes.size()) break;
    int precision = 6;
    if (at < bytes.size() && bytes[at] == '.') {
      const auto read = std::from_chars(bytes.data() + at + 1, bytes.data() + bytes.size(), precision);
      if (read.ec != std::errc() || precision < 0 || precision > 30) throw Failure("format: bad precision");
      at = static_cast<std::size_t>(read.ptr - bytes.data());
    }
    if (at >= bytes.size()) throw Failure("format: the pattern ends in '%'");
    if (bytes[at] == '%') {
      out.Append(meter, "%", true);
      continue;
    }
    if (next >= arguments.positional.size()) throw Failure("format: too few values");
    AppendConversion(meter, bytes[at], precision, arguments.positional[next++], &out);
  }
  return Value(std::move(out));
}

Value WordCount(Interpreter& interpreter, const Value& input, const Arguments&) {
  Meter& meter = interpreter.meter();
  Text made;
  const std::vector<Text> words = Split(meter, TextOf(meter, input, &made), nullptr, -1, false);
  return Value(static_cast<std::int64_t>(words.size()));
}

constexpr NamedFilter kFilters[] = {
    {"capitalize", OfText<Capitalize>},
    {"format", Format},
    {"indent", Indent},
    {"lower", OfText<Lower>},
    {"replace", ReplaceAll},
    {"safe", Safe},
    {"string", String},
    {"title", OfText<Title>},
    {"trim", Trim},
    {"upper", OfText<Upper>},
    {"wordcount", WordCount},
};

}  // namespace

std::span<const NamedFilter> TextFilters() {
  return kFilters;
}

}  // namespace skipjack::jinja
