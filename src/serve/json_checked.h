// Parses JSON that nobody vouches for: request bodies, and the JSON inside of protocol messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/status.h"

namespace skipjack {

// Objects keep the order of their keys: chat templates print tools as they were sent. An object is a list of
// its members, so finding one is a linear search.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  int depth = 64;  // nested objects and arrays
  // Objects and arrays altogether: an empty one costs far more memory than text.
  std::size_t containers = 1 << 16;
  std::size_t members = 1 << 16;  // of all objects together
  // What looks up every member of an object takes its square in steps, so this is what keeps that small.
  std::size_t members_per_object = 2048;
};

// What was parsed so far, where one request has several documents that share the limits.
struct JsonUse {
  std::size_t containers = 0;
  std::size_t members = 0;
};

// Strict JSON (RFC 8259) in valid UTF-8. InvalidArgument for a syntax error, a key given twice in one object,
// a number beyond double, a lone surrogate escape, or a limit exceeded. Nothing behind the place of the error
// is read. The message says what is wrong, and is meant to follow a name: "<the body> is not acceptable JSON:
// ". `use` may be null.
Result<Json> ParseJson(std::string_view text, const JsonLimits& limits = {}, JsonUse* use = nullptr);

// `value` for an error message: numbers and literals as they are, strings shortened, containers by their
// kind.
std::string DescribeJson(const Json& value);

}  // namespace skipjack
