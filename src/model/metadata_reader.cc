#include "model/metadata_reader.h"

#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "model/gguf_errors.h"
#include "model/gguf_parser.h"

namespace skipjack {
namespace {

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// The one value of an array whose values are all equal.
template <typename T>
std::optional<std::int64_t> Uniform(const std::vector<T>& values, std::size_t count) {
  if (values.size() != count || values.empty()) return std::nullopt;
  for (const T& value : values) {
    if (value != values.front()) return std::nullopt;
  }
  return AsInteger(GgufValue(values.front()));
}

}  // namespace

MetadataReader::MetadataReader(const GgufFile& file, std::string_view architecture)
    : file_(file), prefix_(std::string(architecture) + ".") {}

void MetadataReader::Fail(const std::string& message) {
  if (status_.ok()) status_ = Status::InvalidArgument(file_.path() + ": " + message);
}

bool MetadataReader::Has(std::string_view key) const {
  return file_.Find(Full(key)) != nullptr;
}

const GgufValue* MetadataReader::Take(std::string_view key) {
  read_.insert(Full(key));
  return file_.Find(Full(key));
}

std::int32_t MetadataReader::CheckedInt(std::string_view key, std::int64_t value, std::int32_t least,
                                        std::int32_t most) {
  if (value >= least && value <= most) return static_cast<std::int32_t>(value);
  Fail(Full(key) + " is " + std::to_string(value) + ", outside " + std::to_string(least) + " to " +
       std::to_string(most));
  return least;
}

std::int32_t MetadataReader::Int(std::string_view key, std::int32_t least, std::int32_t most) {
  const GgufValue* value = Take(key);
  if (value == nullptr) {
    Fail("metadata key " + Full(key) + " is missing");
    return least;
  }
  const std::optional<std::int64_t> integer = AsInteger(*value);
  if (!integer) {
    Fail(Full(key) + " is not an integer");
    return least;
  }
  return CheckedInt(key, *integer, least, most);
}

std::int32_t MetadataReader::IntOr(std::string_view key, std::int32_t least, std::int32_t most,
                                   std::int32_t absent) {
  return Has(key) ? Int(key, least, most) : absent;
}

std::int32_t MetadataReader::PerLayerInt(std::string_view key, std::int32_t layers, std::int32_t least,
                                         std::int32_t most) {
  const GgufValue* value = Take(key);
  if (value == nullptr || AsInteger(*value)) return Int(key, least, most);
  std::optional<std::int64_t> uniform;
  const auto count = static_cast<std::size_t>(layers);
  if (const auto* values = std::get_if<std::vector<std::int64_t>>(value)) uniform = Uniform(*values, count);
  if (const auto* values = std::get_if<std::vector<std::uint64_t>>(value)) uniform = Uniform(*values, count);
  if (!uniform) {
    Fail(Full(key) + " is neither one integer nor the same integer for each of the " +
         std::to_string(layers) + " layers; layers of different shapes are not supported");
    return least;
  }
  return CheckedInt(key, *uniform, least, most);
}

float MetadataReader::Float(std::string_view key, double least, double most) {
  read_.insert(Full(key));
  const Result<double> value = file_.GetFloat(Full(key));
  if (!value.ok()) {
    if (status_.ok()) status_ = Status::InvalidArgument(value.status().message());
    return static_cast<float>(least);
  }
  if (*value >= least && *value <= most) return static_cast<float>(*value);  // false for NaN
  Fail(Full(key) + " is " + Number(*value) + ", outside " + Number(least) + " to " + Number(most));
  return static_cast<float>(least);
}

float MetadataReader::FloatOr(std::string_view key, double least, double most, float absent) {
  return Has(key) ? Float(key, least, most) : absent;
}

std::string MetadataReader::StringOr(std::string_view key, std::string_view absent) {
  const GgufValue* value = Take(key);
  if (value == nullptr) return std::string(absent);
  if (const auto* text = std::get_if<std::string>(value)) return *text;
  Fail(Full(key) + " is not a text");
  return std::string(absent);
}

void MetadataReader::MustBeOff(std::string_view key, double off, std::string_view feature) {
  const GgufValue* value = Take(key);
  if (value == nullptr) return;
  std::optional<double> number;
  if (const auto* boolean = std::get_if<bool>(value)) number = *boolean ? 1.0 : 0.0;
  if (const auto* real = std::get_if<double>(value)) number = *real;
  if (const std::optional<std::int64_t> integer = AsInteger(*value)) number = static_cast<double>(*integer);
  if (number && *number == off) return;
  Fail(Full(key) + (number ? " is " + Number(*number) : " is set") + ": " + std::string(feature) +
       " is not supported");
}

void MetadataReader::Ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) read_.insert(Full(key));
}

void MetadataReader::RefuseTheRest() {
  for (const std::string& key : file_.keys()) {
    if (key.starts_with(prefix_) && !read_.contains(key)) {
      Fail("metadata key " + Quoted(key) + " is not known and might change results; the model is refused");
    }
  }
}

}  // namespace skipjack
