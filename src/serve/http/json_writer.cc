#include "serve/http/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "text/utf8.h"

namespace skipjack::http {
namespace {

template <typename Number>
void AppendNumber(std::string* out, Number value) {
  std::array<char, 40> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out->append(digits.data(), end);
}

bool IsPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
}

void AppendEscapedAscii(std::string* out, char c) {
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\r':
      *out += "\\r";
      return;
    case '\t':
      *out += "\\t";
      return;
    case '\b':
      *out += "\\b";
      return;
    case '\f':
      *out += "\\f";
      return;
    default:
      break;
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  *out += "\\u00";
  *out += kHex[byte >> 4];
  *out += kHex[byte & 0xf];
}

}  // namespace

void AppendEscaped(std::string* out, std::string_view text) {
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && IsPlain(text[plain])) ++plain;
    out->append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) return;
    if (static_cast<unsigned char>(text[0]) < 0x80) {
      AppendEscapedAscii(out, text[0]);
      text.remove_prefix(1);
      continue;
    }
    const Utf8Part part = FirstUtf8Part(text);
    *out += part.kind == Utf8Part::Kind::kCharacter ? text.substr(0, part.length) : kReplacementCharacter;
    text.remove_prefix(part.length);
  }
}

void JsonWriter::Separate() {
  if (out_->empty()) return;
  const char last = out_->back();
  if (last != '{' && last != '[' && last != ':' && last != ',') *out_ += ',';
}

JsonWriter& JsonWriter::BeginObject() {
  Separate();
  *out_ += '{';
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  *out_ += '}';
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  Separate();
  *out_ += '[';
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  *out_ += ']';
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  String(name);
  *out_ += ':';
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  Separate();
  *out_ += '"';
  AppendEscaped(out_, value);
  *out_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Int(std::int64_t value) {
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Float(float value) {
  if (!std::isfinite(value)) return Null();
  Separate();
  AppendNumber(out_, value);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  Separate();
  *out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Null() {
  Separate();
  *out_ += "null";
  return *this;
}

}  // namespace skipjack::http
