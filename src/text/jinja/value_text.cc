// Values as text: str() and repr(). Both write at the end of one text, as deep as values nest, which is
// bounded.
#include <charconv>
#include <cmath>

#include "text/jinja/value.h"

namespace skipjack::jinja {
namespace {

// What stands for a character that repr() does not print as it is.
std::string Escaped(char c) {
  constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return byte < 0x20 || byte == 0x7f ? std::string{'\\', 'x', kHex[byte >> 4], kHex[byte & 15]}
                                         : std::string{'\\', c};
  }
}

void AppendQuoted(Meter& meter, const Text& text, Text* out) {
  const std::string& bytes = text.bytes();
  meter.Read(bytes.size());
  const char quote =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  const auto escapes = [quote](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || c == '\\' || c == quote;
  };
  out->Append(meter, std::string_view(&quote, 1), false);
  std::size_t plain = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    if (!escapes(bytes[at])) continue;
    out->AppendPart(meter, text, plain, at - plain);
    out->Append(meter, Escaped(bytes[at]), text.TrustedAt(at));
    plain = at + 1;
  }
  out->AppendPart(meter, text, plain, bytes.size() - plain);
  out->Append(meter, std::string_view(&quote, 1), false);
}

void AppendListRepr(Meter& meter, const Value& value, Text* out) {
  const List& items = value.list();
  out->Append(meter, value.is_tuple() ? "(" : "[", false);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out->Append(meter, ", ", false);
    AppendRepr(meter, items[i], out);
  }
  if (value.is_tuple() && items.size() == 1) out->Append(meter, ",", false);
  out->Append(meter, value.is_tuple() ? ")" : "]", false);
}

void AppendDictRepr(Meter& meter, const Dict& dict, Text* out) {
  out->Append(meter, "{", false);
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out->Append(meter, ", ", false);
    AppendRepr(meter, dict.entries[i].first, out);
    out->Append(meter, ": ", false);
    AppendRepr(meter, dict.entries[i].second, out);
  }
  out->Append(meter, "}", false);
}

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  // Shortest digits that read back the same; Python switches to an exponent below 1e-4 and from 1e16 on.
  const double magnitude = std::fabs(value);
  const bool exponent = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  const auto format = exponent ? std::chars_format::scientific : std::chars_format::fixed;
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, format).ptr;
  std::string out(buffer, end);
  if (!exponent && out.find('.') == std::string::npos) out += ".0";
  return out;
}

void AppendText(Meter& meter, const Value& value, Text* out) {
  if (value.is_text()) return out->Append(meter, value.text());
  if (value.is_undefined()) return;
  if (value.is_none()) return out->Append(meter, "None", false);
  if (value.is_bool()) return out->Append(meter, value.boolean() ? "True" : "False", false);
  if (value.is_int()) return out->Append(meter, std::to_string(value.integer()), false);
  if (value.is_float()) return out->Append(meter, FloatRepr(value.number()), false);
  if (value.is_list() || value.is_dict()) return AppendRepr(meter, value, out);
  throw Failure(std::string("a ") + value.TypeName() + " cannot be printed");
}

Text ToText(Meter& meter, const Value& value) {
  Text out;
  AppendText(meter, value, &out);
  return out;
}

void AppendRepr(Meter& meter, const Value& value, Text* out) {
  meter.Step();
  if (value.is_text()) return AppendQuoted(meter, value.text(), out);
  if (value.is_list()) return AppendListRepr(meter, value, out);
  if (value.is_dict()) return AppendDictRepr(meter, value.dict(), out);
  AppendText(meter, value, out);
}

}  // namespace skipjack::jinja
