#include "serve/http/head_checks.h"

#include <string>

namespace skipjack::http {
namespace {

std::optional<HttpError> CheckFraming(const RequestHead& head) {
  if (head.version == 11 && head.Find("host") == nullptr) {
    return BadRequest("an HTTP/1.1 request must have a Host field");
  }
  if (const std::string* coding = head.Find("transfer-encoding")) {
    if (head.version == 10) return BadRequest("HTTP/1.0 knows no Transfer-Encoding");
    if (!EqualsIgnoringCase(*coding, "chunked")) {
      return HttpError{.status = 501, .message = "only the transfer coding \"chunked\" is understood"};
    }
  }
  if (const std::string* expect = head.Find("expect");
      expect != nullptr && !EqualsIgnoringCase(*expect, "100-continue")) {
    return HttpError{.status = 417, .message = "only the expectation \"100-continue\" can be met"};
  }
  return std::nullopt;
}

// A JSON media type is demanded, not guessed: a web page cannot send one to another site unasked.
std::optional<HttpError> CheckJsonBody(const RequestHead& head) {
  if (!head.chunked && !head.content_length) {
    return HttpError{.status = 411,
                     .message = "a body with Content-Length or Transfer-Encoding: chunked is required"};
  }
  const std::string* type = head.Find("content-type");
  if (type == nullptr || MediaType(*type) != "application/json") {
    return HttpError{.status = 415, .message = "Content-Type must be application/json"};
  }
  const std::string* coding = head.Find("content-encoding");
  if (coding != nullptr && !EqualsIgnoringCase(*coding, "identity")) {
    return HttpError{.status = 415, .message = "Content-Encoding is not supported"};
  }
  return std::nullopt;
}

std::optional<HttpError> CheckRoute(const RequestHead& head, const RouteMatch& match) {
  if (match.route == HttpRoute::kUnknown) {
    if (head.method == Method::kOptions && head.path == "*") return std::nullopt;
    return HttpError{.status = 404, .message = "no such resource: " + head.path.substr(0, 200)};
  }
  if (!Allows(match.route, head.method)) {
    return HttpError{.status = 405,
                     .message = head.method_name.substr(0, 32) + " is not allowed here",
                     .allow = std::string(AllowedMethods(match.route))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<HttpError> CheckHead(const RequestHead& head, const RouteMatch& match,
                                   const HeadPolicy& policy) {
  if (auto error = CheckFraming(head)) return error;
  if (policy.over_connection_limit && !IsHealth(match.route)) {
    return HttpError{.status = 503, .message = "too many connections; try again", .retry_after_seconds = 1};
  }
  if (auto error = CheckRoute(head, match)) return error;
  if (head.content_length.value_or(0) > policy.max_body_bytes) {
    return HttpError{
        .status = 413,
        .message = "the body has " + std::to_string(*head.content_length) +
                   " bytes, more than max_request_bytes = " + std::to_string(policy.max_body_bytes)};
  }
  if (head.method == Method::kPost) {
    if (auto error = CheckJsonBody(head)) return error;
  }
  // One that would not fit now is refused before it is sent. What is counted is what has arrived: a client
  // that announces a body and does not send it takes nothing from others.
  if (head.content_length.value_or(0) > static_cast<std::uint64_t>(policy.body_bytes->left())) {
    return BodiesOverBudget(*policy.body_bytes);
  }
  return std::nullopt;
}

bool ExpectsContinue(const RequestHead& head) {
  return head.version == 11 && head.has_body() && head.Find("expect") != nullptr;
}

}  // namespace skipjack::http
