// Sizes and durations as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace skipjack {

// "4GiB", "1.5MiB", "512 KiB", "1048576": bytes, rounded down. nullopt for anything else and for what int64
// cannot hold.
std::optional<std::int64_t> ParseBytes(std::string_view text);

// "30s", "500ms", "1.5m", "2h", "0": seconds. A unit is needed unless the number is 0.
std::optional<double> ParseSeconds(std::string_view text);

// In the largest unit that needs no fraction: "8MiB", "1000".
std::string FormatBytes(std::int64_t bytes);
// "120s" becomes "2m"; fractions of a second become ms.
std::string FormatSeconds(double seconds);

}  // namespace skipjack
