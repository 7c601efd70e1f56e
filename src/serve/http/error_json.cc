#include "serve/http/error_json.h"

#include <algorithm>
#include <array>

#include "serve/http/json_writer.h"

namespace skipjack::http {
namespace {

// The fields a message from behind may begin with: "top_p must lie in (0, 1], got 3".
constexpr std::array<std::string_view, 30> kFieldNames = {"model",
                                                          "prompt",
                                                          "messages",
                                                          "max_tokens",
                                                          "min_tokens",
                                                          "n",
                                                          "temperature",
                                                          "top_p",
                                                          "top_k",
                                                          "min_p",
                                                          "typical_p",
                                                          "seed",
                                                          "repetition_penalty",
                                                          "presence_penalty",
                                                          "frequency_penalty",
                                                          "logit_bias",
                                                          "logprobs",
                                                          "top_logprobs",
                                                          "stop",
                                                          "stop_token_ids",
                                                          "timeout",
                                                          "priority",
                                                          "request_id",
                                                          "ignore_eos",
                                                          "tools",
                                                          "tokens",
                                                          "content",
                                                          "chat_template_kwargs",
                                                          "cache_salt",
                                                          "tenant"};

std::string FieldAtFault(std::string_view message) {
  const std::size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  const std::string_view first = message.substr(0, end);
  const bool ends_word =
      end == std::string_view::npos || std::string_view(" :[,.").find(message[end]) != std::string_view::npos;
  if (!ends_word || std::find(kFieldNames.begin(), kFieldNames.end(), first) == kFieldNames.end()) return "";
  return std::string(first);
}

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

}  // namespace

int HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return 200;
    case StatusCode::kCancelled:
      return 499;
    case StatusCode::kInvalidArgument:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kOutOfRange:
      return 400;
    case StatusCode::kDeadlineExceeded:
      return 504;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kAlreadyExists:
    case StatusCode::kAborted:
      return 409;
    case StatusCode::kPermissionDenied:
      return 403;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnimplemented:
      return 501;
    case StatusCode::kUnavailable:
      return 503;
    case StatusCode::kUnauthenticated:
      return 401;
    case StatusCode::kUnknown:
    case StatusCode::kInternal:
    case StatusCode::kDataLoss:
      return 500;
  }
  return 500;
}

HttpError ErrorFromStatus(const Status& status, std::optional<int> retry_after_seconds) {
  HttpError error{.status = HttpStatusOf(status.code()),
                  .message = status.message(),
                  .param = FieldAtFault(status.message()),
                  .retry_after_seconds = retry_after_seconds};
  if (error.status == 429 && !error.retry_after_seconds) error.retry_after_seconds = 1;
  if (error.status == 404 && error.param == "model") error.code = "model_not_found";
  if (error.message.empty()) error.message = StatusCodeName(status.code());
  return error;
}

HttpError BodiesOverBudget(const ByteBudget& budget) {
  return {
      .status = 429,
      .message = "the server is overloaded: the request bodies it is receiving hold " +
                 std::to_string(budget.total() - budget.left()) +
                 " bytes, and this one would exceed max_pending_bytes = " + std::to_string(budget.total()),
      .retry_after_seconds = 1};
}

std::string RenderError(const HttpError& error) {
  std::string out;
  JsonWriter json(&out);
  const auto optional_text = [&](std::string_view name, const std::string& value) {
    json.Key(name);
    value.empty() ? json.Null() : json.String(value);
  };
  json.BeginObject().Key("error").BeginObject();
  json.Field("message", error.message).Field("type", ErrorType(error.status));
  optional_text("param", error.param);
  optional_text("code", error.code);
  json.EndObject().EndObject();
  return out;
}

Response ErrorResponse(const HttpError& error) {
  Response response{.status = error.status};
  response.body = RenderError(error);
  if (error.retry_after_seconds) {
    response.fields.emplace_back("Retry-After", std::to_string(std::max(0, *error.retry_after_seconds)));
  }
  if (!error.allow.empty()) response.fields.emplace_back("Allow", error.allow);
  return response;
}

}  // namespace skipjack::http
