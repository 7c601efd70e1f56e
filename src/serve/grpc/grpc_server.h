// The gRPC front end: skipjack.v1.Inference and Admin, the standard health service and reflection on one
// port.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "registry/model_registry.h"
#include "serve/inference_service.h"

namespace skipjack {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  // 0: any free one, see GrpcServer::port()
  std::int64_t max_request_bytes = 8 << 20;
  // Of all messages together that are being received or wait for a worker; beyond, calls get
  // RESOURCE_EXHAUSTED.
  std::int64_t max_pending_bytes = 256 << 20;
  std::int32_t max_calls_per_connection = 4096;  // more of them wait at the client
  std::int64_t max_stream_bytes = 4 << 20;       // unsent output of one stream beyond which it is cut
  std::string version = "dev";                   // for Admin.Status
  // Clients may ping this often, also without a running call.
  Duration min_ping_interval = std::chrono::seconds(5);
  // A connection that is silent this long is pinged, and closed when the ping is not answered in time.
  Duration keepalive_interval = std::chrono::seconds(60);
  Duration keepalive_timeout = std::chrono::seconds(20);
  // How often readiness is looked at for the watchers of the health service; Check always looks afresh.
  Duration health_interval = std::chrono::milliseconds(500);
};

// Counters since the start, except the first.
struct GrpcServerStats {
  std::int32_t open_streams = 0;
  std::uint64_t calls = 0;            // begun, all methods of Inference and Admin
  std::uint64_t cancelled_calls = 0;  // the client went away or cancelled
  std::uint64_t slow_clients_cut = 0;

  struct Requests {
    std::string_view method;  // "Generate"
    std::string_view code;    // "OK", "RESOURCE_EXHAUSTED", ...
    std::uint64_t count = 0;
  };
  std::vector<Requests> requests;  // ended calls of Inference and Admin; only counts above zero
};

class GrpcServer {
 public:
  // Binds and serves at once, so do it before models load: requests for a model that still loads are answered
  // with UNAVAILABLE and the phase. Fails when the address cannot be bound. Both references must outlive the
  // server.
  static Result<std::unique_ptr<GrpcServer>> Start(InferenceService& service, ModelRegistry& registry,
                                                   const GrpcServerOptions& options);
  virtual ~GrpcServer() = default;  // Shutdown without grace

  virtual int port() const = 0;
  virtual GrpcServerStats Stats() const = 0;
  // Refuses new calls, lets running ones finish within `grace`, then cancels them. Returns when all are gone.
  // Call InferenceService::BeginDrain() before, so that health says so first. Idempotent.
  virtual void Shutdown(Duration grace) = 0;
};

}  // namespace skipjack
