// One line for each answered HTTP request, except where lines would say little or flood the log.
#pragma once

#include <chrono>

#include "base/clock.h"
#include "obs/log_limiter.h"
#include "serve/http/http_server.h"

namespace skipjack::cli {

// Probes and scrapes are logged at debug only. Of requests that were refused because the server is overloaded
// or not ready (429, 503) a few lines every ten seconds, and how many more there were. Thread-safe.
class AccessLog {
 public:
  explicit AccessLog(const Clock& clock) : refusals_(clock, std::chrono::seconds(10), 10) {}

  void Write(const HttpAccess& access);

 private:
  LogLimiter refusals_;
};

}  // namespace skipjack::cli
