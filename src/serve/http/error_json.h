// Failures in the form OpenAI's clients know: {"error": {"message", "type", "param", "code"}} under an HTTP
// status.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "serve/byte_budget.h"
#include "serve/http/http_message.h"

namespace skipjack::http {

struct HttpError {
  int status = 500;
  std::string message{};
  std::string param{};  // the request field at fault; empty: null
  std::string code{};   // a machine-readable cause such as "model_not_found"; empty: null
  std::optional<int> retry_after_seconds{};
  std::string allow{};  // for 405
};

// CANCELLED 499, INVALID_ARGUMENT 400, DEADLINE_EXCEEDED 504, NOT_FOUND 404, ALREADY_EXISTS and ABORTED 409,
// PERMISSION_DENIED 403, RESOURCE_EXHAUSTED 429, FAILED_PRECONDITION and OUT_OF_RANGE 400, UNIMPLEMENTED 501,
// UNAVAILABLE 503, UNAUTHENTICATED 401, the others 500.
int HttpStatusOf(StatusCode code);

// From a status that is not ok. A message that begins with a request field's name makes that field the
// `param`. 429 always gets a Retry-After (1 s unless told), 503 only when told.
HttpError ErrorFromStatus(const Status& status, std::optional<int> retry_after_seconds = std::nullopt);

inline HttpError BadRequest(std::string message, std::string param = "") {
  return {.status = 400, .message = std::move(message), .param = std::move(param)};
}

// 429: the bodies that are being received hold what they may hold together.
HttpError BodiesOverBudget(const ByteBudget& budget);

// The JSON document, without a line break.
std::string RenderError(const HttpError& error);

Response ErrorResponse(const HttpError& error);

}  // namespace skipjack::http
