#include "serve/http/server_stats.h"

namespace skipjack::http {

void ServerStats::CountRequest(HttpRoute route, int status) {
  if (status < kFirstStatus || status > kLastStatus) return;
  ++requests_[static_cast<std::size_t>(route)][static_cast<std::size_t>(status - kFirstStatus)];
}

HttpStats ServerStats::Snapshot() const {
  HttpStats stats;
  stats.open_connections = open_connections;
  stats.open_streams = open_streams;
  stats.accepted_connections = accepted_connections;
  stats.refused_connections = refused_connections;
  stats.accept_errors = accept_errors;
  stats.streams_cut = streams_cut;
  stats.disconnects = disconnects;
  stats.timeouts = timeouts;
  for (std::size_t route = 0; route < requests_.size(); ++route) {
    for (std::size_t i = 0; i < requests_[route].size(); ++i) {
      const std::uint64_t count = requests_[route][i];
      if (count > 0)
        stats.requests.push_back({static_cast<HttpRoute>(route), kFirstStatus + static_cast<int>(i), count});
    }
  }
  return stats;
}

}  // namespace skipjack::http
