#include "config/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

namespace skipjack {
namespace {

// A decimal number split into its digits, and the unit behind it.
struct Quantity {
  std::int64_t whole = 0;
  std::int64_t fraction = 0;  // over `scale`
  std::int64_t scale = 1;
  bool has_fraction = false;
  std::string_view unit;
};

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// Digits, optionally a point and up to 6 digits, optionally one space, and the unit.
std::optional<Quantity> ParseQuantity(std::string_view text) {
  constexpr std::int64_t kMaxScale = 1'000'000;
  Quantity quantity;
  std::size_t i = 0;
  for (; i < text.size() && IsDigit(text[i]); ++i) {
    if (__builtin_mul_overflow(quantity.whole, std::int64_t{10}, &quantity.whole)) return std::nullopt;
    if (__builtin_add_overflow(quantity.whole, std::int64_t{text[i] - '0'}, &quantity.whole))
      return std::nullopt;
  }
  if (i == 0) return std::nullopt;
  if (i < text.size() && text[i] == '.') {
    quantity.has_fraction = true;
    const std::size_t first = ++i;
    for (; i < text.size() && IsDigit(text[i]); ++i) {
      if (quantity.scale == kMaxScale) return std::nullopt;
      quantity.scale *= 10;
      quantity.fraction = quantity.fraction * 10 + (text[i] - '0');
    }
    if (i == first) return std::nullopt;
  }
  quantity.unit = text.substr(i);
  if (quantity.unit.size() > 1 && quantity.unit.front() == ' ') quantity.unit.remove_prefix(1);
  return quantity;
}

struct ByteUnit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<ByteUnit, 4> kByteUnits{
    {{"TiB", std::int64_t{1} << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}};

}  // namespace

std::optional<std::int64_t> ParseBytes(std::string_view text) {
  const std::optional<Quantity> quantity = ParseQuantity(text);
  if (!quantity) return std::nullopt;
  if (quantity->unit.empty()) return quantity->has_fraction ? std::nullopt : std::optional(quantity->whole);
  for (const ByteUnit& unit : kByteUnits) {
    if (quantity->unit != unit.name) continue;
    std::int64_t bytes = 0;
    if (__builtin_mul_overflow(quantity->whole, unit.bytes, &bytes)) return std::nullopt;
    const std::int64_t rest = quantity->fraction * unit.bytes / quantity->scale;  // below 10^6 * 2^40
    if (__builtin_add_overflow(bytes, rest, &bytes)) return std::nullopt;
    return bytes;
  }
  return std::nullopt;
}

std::optional<double> ParseSeconds(std::string_view text) {
  const std::optional<Quantity> quantity = ParseQuantity(text);
  if (!quantity) return std::nullopt;
  const double value = static_cast<double>(quantity->whole) +
                       static_cast<double>(quantity->fraction) / static_cast<double>(quantity->scale);
  if (quantity->unit == "ms") return value / 1000;
  if (quantity->unit == "s") return value;
  if (quantity->unit == "m") return value * 60;
  if (quantity->unit == "h") return value * 3600;
  if (quantity->unit.empty() && value == 0) return 0.0;
  return std::nullopt;
}

std::string FormatBytes(std::int64_t bytes) {
  if (bytes != 0) {
    for (const ByteUnit& unit : kByteUnits) {
      if (bytes % unit.bytes == 0) return fmt::format("{}{}", bytes / unit.bytes, unit.name);
    }
  }
  return fmt::format("{}", bytes);
}

std::string FormatSeconds(double seconds) {
  if (seconds == 0) return "0";
  if (seconds != std::floor(seconds)) return fmt::format("{}ms", std::round(seconds * 1e6) / 1e3);
  if (std::fmod(seconds, 3600) == 0) return fmt::format("{}h", seconds / 3600);
  if (std::fmod(seconds, 60) == 0) return fmt::format("{}m", seconds / 60);
  return fmt::format("{}s", seconds);
}

}  // namespace skipjack
