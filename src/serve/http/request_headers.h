// The header fields that steer a request, and the one that reports what was not understood.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "serve/http/http_message.h"

namespace skipjack::http {

// "X-Skipjack-Strict: true": unknown body fields are refused.
bool WantsStrict(const RequestHead& head);

// X-Skipjack-Tenant: who asks, as told by a proxy that knows. Empty where it is not said.
std::string TenantOf(const RequestHead& head);

// Warning: 299 skipjack "unknown fields were ignored: max_token"
std::pair<std::string, std::string> IgnoredFieldsWarning(const std::vector<std::string>& names);

}  // namespace skipjack::http
