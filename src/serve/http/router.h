// Which resource a path names, and by which methods it may be asked.
#pragma once

#include <string>
#include <string_view>

#include "serve/http/http_message.h"
#include "serve/http/http_server.h"

namespace skipjack::http {

struct RouteMatch {
  HttpRoute route = HttpRoute::kUnknown;
  std::string model;  // for kModel: the decoded rest of the path
};

// `path` without the query. kUnknown when nothing answers there.
RouteMatch MatchRoute(std::string_view path);

bool IsPost(HttpRoute route);
// The value of an Allow field.
std::string_view AllowedMethods(HttpRoute route);
bool Allows(HttpRoute route, Method method);

// Answered even when the server holds as many connections as it may.
bool IsHealth(HttpRoute route);

}  // namespace skipjack::http
