#include "serve/http/field_reader.h"

#include <limits>
#include <utility>

namespace skipjack::http {

std::optional<std::int64_t> ExactInteger(const Json& value, std::string* what) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return static_cast<std::int64_t>(number);
    }
    *what = "must be an integer of at most 9223372036854775807, got " + std::to_string(number);
    return std::nullopt;
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  *what = "must be an integer of at most 9223372036854775807, got " + DescribeJson(value);
  return std::nullopt;
}

void FieldReader::Fail(std::string_view name, const std::string& what) {
  if (error_) return;
  const std::string field = path_ + std::string(name);
  error_ = BadRequest(field + " " + what, field);
}

void FieldReader::Adopt(const FieldReader& inner) {
  if (!error_) error_ = inner.error_;
}

Json* FieldReader::Value(std::string_view name) {
  read_.emplace(name);
  const auto found = object_->find(name);
  if (!ok() || found == object_->end() || found->is_null()) return nullptr;
  return &*found;
}

Json* FieldReader::Typed(std::string_view name, bool (Json::*is)() const noexcept, std::string_view type) {
  Json* value = Value(name);
  if (value == nullptr || (value->*is)()) return value;
  Fail(name, "must be " + std::string(type) + ", got " + DescribeJson(*value));
  return nullptr;
}

std::optional<std::int64_t> FieldReader::Integer(std::string_view name) {
  const Json* value = Value(name);
  if (value == nullptr) return std::nullopt;
  std::string what;
  const std::optional<std::int64_t> number = ExactInteger(*value, &what);
  if (!number) Fail(name, what);
  return number;
}

std::optional<double> FieldReader::Number(std::string_view name) {
  const Json* value = Typed(name, &Json::is_number, "a number");
  return value == nullptr ? std::nullopt : std::optional(value->get<double>());
}

std::optional<bool> FieldReader::Bool(std::string_view name) {
  const Json* value = Typed(name, &Json::is_boolean, "true or false");
  return value == nullptr ? std::nullopt : std::optional(value->get<bool>());
}

std::optional<std::string> FieldReader::String(std::string_view name) {
  Json* value = Typed(name, &Json::is_string, "a string");
  return value == nullptr ? std::nullopt : std::optional(std::move(value->get_ref<std::string&>()));
}

Json* FieldReader::Object(std::string_view name) {
  return Typed(name, &Json::is_object, "an object");
}

Json* FieldReader::Array(std::string_view name) {
  return Typed(name, &Json::is_array, "an array");
}

std::vector<std::int64_t> FieldReader::Integers(std::string_view name) {
  std::vector<std::int64_t> numbers;
  const Json* array = Array(name);
  if (array == nullptr) return numbers;
  numbers.reserve(array->size());
  for (std::size_t i = 0; i < array->size(); ++i) {
    std::string what;
    const std::optional<std::int64_t> number = ExactInteger((*array)[i], &what);
    if (!number) {
      Fail(std::string(name) + "[" + std::to_string(i) + "]", what);
      return {};
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::string> FieldReader::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items()) {
    if (!read_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace skipjack::http
