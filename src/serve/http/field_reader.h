// Reads the fields of a client's JSON object by exact type. Null counts as absent. The first mistake sticks:
// later reads return nothing, and the caller looks at error() once, at the end.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/error_json.h"
#include "serve/json_checked.h"

namespace skipjack::http {

class FieldReader {
 public:
  // `object` must be a JSON object and outlive the reader; strings are moved out of it. `path` is put before
  // field names in messages ("stream_options.").
  explicit FieldReader(Json* object, std::string path = "") : object_(object), path_(std::move(path)) {}

  std::optional<std::int64_t> Integer(std::string_view name);  // 3.0 is no integer, 2^63 neither
  std::optional<double> Number(std::string_view name);
  std::optional<bool> Bool(std::string_view name);
  std::optional<std::string> String(std::string_view name);
  std::vector<std::int64_t> Integers(std::string_view name);  // an array
  Json* Object(std::string_view name);
  Json* Array(std::string_view name);
  Json* Value(std::string_view name);  // of any type; nullptr when absent or null

  bool BoolOr(std::string_view name, bool otherwise) { return Bool(name).value_or(otherwise); }

  // Records that the field is at fault, unless something was before. "<path><name> <what>".
  void Fail(std::string_view name, const std::string& what);

  bool ok() const { return !error_.has_value(); }
  const std::optional<HttpError>& error() const { return error_; }
  void Adopt(const FieldReader& inner);  // its error, where it has one

  // Names nobody asked for, in order.
  std::vector<std::string> Unread() const;

 private:
  Json* Typed(std::string_view name, bool (Json::*is)() const noexcept, std::string_view type);

  Json* object_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
  std::optional<HttpError> error_;
};

// The value as an int64, or nothing: then `what` says what is wrong with it ("must be an integer, got 3.7").
std::optional<std::int64_t> ExactInteger(const Json& value, std::string* what);

}  // namespace skipjack::http
