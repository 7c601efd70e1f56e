#include "cli/access_log.h"

#include <spdlog/spdlog.h>

namespace skipjack::cli {
namespace {

bool IsProbe(HttpRoute route) {
  return route == HttpRoute::kHealthLive || route == HttpRoute::kHealthReady || route == HttpRoute::kMetrics;
}

}  // namespace

void AccessLog::Write(const HttpAccess& access) {
  auto level = IsProbe(access.route) ? spdlog::level::debug : spdlog::level::info;
  if (level == spdlog::level::info && (access.status == 429 || access.status == 503)) {
    const LogLimiter::Decision decision = refusals_.Take();
    if (decision.left_out > 0) {
      spdlog::info("http: {} more requests were refused (429, 503) since", decision.left_out);
    }
    if (!decision.write) level = spdlog::level::debug;
  }
  spdlog::log(level, "http {} {} {} {} bytes {:.1f} ms {}{}", access.method, HttpRouteName(access.route),
              access.status, access.response_bytes, ToSeconds(access.duration) * 1e3, access.request_id,
              access.complete ? "" : " (client left)");
}

}  // namespace skipjack::cli
