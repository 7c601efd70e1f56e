// Requests and responses as values. No networking here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/http/request_body.h"

namespace skipjack::http {

enum class Method : std::uint8_t { kGet, kHead, kPost, kOptions, kOther };

struct RequestHead {
  Method method = Method::kOther;
  std::string method_name;
  std::string path;  // the target up to '?', as sent
  int version = 11;  // 10 or 11
  bool keep_alive = true;
  bool chunked = false;
  std::optional<std::uint64_t> content_length;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case

  // The first field of that name, or nullptr. `name` is in lower case.
  const std::string* Find(std::string_view name) const;
  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
};

struct Request {
  RequestHead head;
  std::shared_ptr<RequestBody> body;  // not null
  std::string request_id;             // the client's X-Request-Id where it is usable, otherwise made here
  bool request_id_from_client = false;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";  // empty: no content
  std::vector<std::pair<std::string, std::string>> fields{};
  std::string body{};
};

// How the body is delimited and what becomes of the connection.
struct Framing {
  enum class Body : std::uint8_t { kLength, kChunked, kUntilClose, kNone };
  Body body = Body::kLength;
  bool keep_alive = true;
  int version = 11;  // of the request
};

// The status line and all header fields, with the empty line. `date` is an IMF-fixdate.
std::string SerializeHead(const Response& response, const Framing& framing, std::string_view date);

std::string_view ReasonPhrase(int status);

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string FormatHttpDate(std::int64_t unix_seconds);

// One chunk of a chunked body. `data` is not empty: an empty chunk would end the body.
void AppendChunk(std::string* out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// Percent-decodes; nullopt for a malformed escape.
std::optional<std::string> PercentDecode(std::string_view text);

// May this id travel in a header and in logs? 1 to 128 visible ASCII characters without quotes and
// separators.
bool IsUsableRequestId(std::string_view id);

// "Application/JSON; charset=utf-8" is "application/json".
std::string MediaType(std::string_view content_type);

bool EqualsIgnoringCase(std::string_view a, std::string_view b);

}  // namespace skipjack::http
