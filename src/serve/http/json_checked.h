// Parses a request body that nobody vouches for.
#pragma once

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace skipjack::http {

// Objects keep the order of their keys: chat templates print tools as they were sent.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int depth = 64;  // nested objects and arrays
  std::size_t containers =
      1 << 16;  // objects and arrays altogether: an empty one costs far more memory than text
};

// Strict JSON (RFC 8259) in valid UTF-8. InvalidArgument for a syntax error, a key given twice in one object,
// a number beyond double, a lone surrogate escape, or a limit exceeded; the message says at which byte.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {});

}  // namespace skipjack::http
