// Writes compact JSON that is valid by construction: text is repaired to UTF-8 on the way out and a number
// that is not finite becomes null. Every response body passes through here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace skipjack::http {

// Appends to a caller's string, which may already hold the beginning of a document. Commas are placed by
// looking at the last character written; the caller keeps brackets and keys in order.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(out) {}

  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view name);
  JsonWriter& String(std::string_view value);
  JsonWriter& Int(std::int64_t value);
  JsonWriter& Double(double value);  // shortest form that reads back as the same double
  JsonWriter& Float(float value);    // the same for a float
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  // Key and value at once.
  JsonWriter& Field(std::string_view name, std::string_view value) { return Key(name).String(value); }
  JsonWriter& Field(std::string_view name, const char* value) { return Key(name).String(value); }
  JsonWriter& Field(std::string_view name, std::int64_t value) { return Key(name).Int(value); }
  JsonWriter& Field(std::string_view name, std::int32_t value) { return Key(name).Int(value); }
  JsonWriter& Field(std::string_view name, double value) { return Key(name).Double(value); }
  JsonWriter& Field(std::string_view name, bool value) { return Key(name).Bool(value); }

 private:
  void Separate();  // a comma, unless the last character opens something

  std::string* out_;
};

// `text` as the inside of a JSON string: escaped, without the quotes.
void AppendEscaped(std::string* out, std::string_view text);

}  // namespace skipjack::http
