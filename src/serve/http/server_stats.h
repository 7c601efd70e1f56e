// The counters behind HttpStats. Written by I/O threads, read by anyone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "serve/http/http_server.h"

namespace skipjack::http {

class ServerStats {
 public:
  std::atomic<std::int64_t> open_connections{0};
  std::atomic<std::int64_t> open_streams{0};
  std::atomic<std::uint64_t> accepted_connections{0};
  std::atomic<std::uint64_t> refused_connections{0};
  std::atomic<std::uint64_t> accept_errors{0};
  std::atomic<std::uint64_t> streams_cut{0};
  std::atomic<std::uint64_t> disconnects{0};
  std::atomic<std::uint64_t> timeouts{0};

  void CountRequest(HttpRoute route, int status);
  HttpStats Snapshot() const;

 private:
  static constexpr int kFirstStatus = 200;
  static constexpr int kLastStatus = 599;
  using ByStatus = std::array<std::atomic<std::uint64_t>, kLastStatus - kFirstStatus + 1>;

  std::array<ByStatus, kHttpRoutes> requests_{};
};

}  // namespace skipjack::http
