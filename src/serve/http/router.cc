#include "serve/http/router.h"

#include <array>
#include <optional>
#include <utility>

namespace skipjack {

std::string_view HttpRouteName(HttpRoute route) {
  switch (route) {
    case HttpRoute::kCompletions:
      return "/v1/completions";
    case HttpRoute::kChatCompletions:
      return "/v1/chat/completions";
    case HttpRoute::kModels:
      return "/v1/models";
    case HttpRoute::kModel:
      return "/v1/models/{id}";
    case HttpRoute::kTokenize:
      return "/tokenize";
    case HttpRoute::kDetokenize:
      return "/detokenize";
    case HttpRoute::kHealthLive:
      return "/health/live";
    case HttpRoute::kHealthReady:
      return "/health/ready";
    case HttpRoute::kMetrics:
      return "/metrics";
    case HttpRoute::kVersion:
      return "/version";
    case HttpRoute::kUnknown:
      return "other";
  }
  return "other";
}

namespace http {
namespace {

constexpr std::array<std::pair<std::string_view, HttpRoute>, 10> kPaths = {{
    {"/v1/completions", HttpRoute::kCompletions},
    {"/v1/chat/completions", HttpRoute::kChatCompletions},
    {"/v1/models", HttpRoute::kModels},
    {"/tokenize", HttpRoute::kTokenize},
    {"/detokenize", HttpRoute::kDetokenize},
    {"/health", HttpRoute::kHealthReady},
    {"/health/live", HttpRoute::kHealthLive},
    {"/health/ready", HttpRoute::kHealthReady},
    {"/metrics", HttpRoute::kMetrics},
    {"/version", HttpRoute::kVersion},
}};

constexpr std::string_view kModelPrefix = "/v1/models/";

}  // namespace

RouteMatch MatchRoute(std::string_view path) {
  for (const auto& [known, route] : kPaths) {
    if (path == known) return {route, ""};
  }
  if (path.size() > kModelPrefix.size() && path.starts_with(kModelPrefix)) {
    std::optional<std::string> model = PercentDecode(path.substr(kModelPrefix.size()));
    if (model) return {HttpRoute::kModel, std::move(*model)};
  }
  return {};
}

bool IsPost(HttpRoute route) {
  return route == HttpRoute::kCompletions || route == HttpRoute::kChatCompletions ||
         route == HttpRoute::kTokenize || route == HttpRoute::kDetokenize;
}

std::string_view AllowedMethods(HttpRoute route) {
  return IsPost(route) ? "POST, OPTIONS" : "GET, HEAD, OPTIONS";
}

bool Allows(HttpRoute route, Method method) {
  if (method == Method::kOptions) return true;
  return IsPost(route) ? method == Method::kPost : method == Method::kGet || method == Method::kHead;
}

bool IsHealth(HttpRoute route) {
  return route == HttpRoute::kHealthLive || route == HttpRoute::kHealthReady;
}

}  // namespace http
}  // namespace skipjack
