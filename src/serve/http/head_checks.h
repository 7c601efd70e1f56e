// What can be refused before a request's body arrives.
#pragma once

#include <optional>

#include "serve/http/error_json.h"
#include "serve/http/router.h"

namespace skipjack::http {

struct HeadPolicy {
  std::uint64_t max_body_bytes = 0;
  const ByteBudget* body_bytes = nullptr;  // of all bodies; not null
  bool over_connection_limit = false;      // only health is answered then
};

// Nothing when the request may go on. 400 (Host, framing), 404, 405, 411, 413, 415, 417, 429, 501, 503.
std::optional<HttpError> CheckHead(const RequestHead& head, const RouteMatch& match,
                                   const HeadPolicy& policy);

// The client waits for "100 Continue" before it sends the body.
bool ExpectsContinue(const RequestHead& head);

}  // namespace skipjack::http
