// The OpenAI-compatible HTTP/1.1 front end. A few I/O threads serve any number of connections; what needs a
// CPU for long (parsing a large body, tokenising) goes to InferenceService's workers.
//
// Life: Create → Bind (the port is taken from here on, nobody is answered yet) → Start (requests are
// answered; while models load that answer is the service's UNAVAILABLE, a 503) → Stop. The service must
// outlive the server.
//
// docs/http.md describes the routes and every deviation from OpenAI's and vLLM's behaviour.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace skipjack {

class InferenceService;

// How many connections are open at most: beyond the limit a few are let in to be told so, and health probes
// to be answered.
constexpr std::int64_t MostOpenConnections(std::int32_t max_connections) {
  return max_connections + std::max<std::int64_t>(16, max_connections / 16);
}

enum class HttpRoute : std::uint8_t {
  kCompletions,
  kChatCompletions,
  kModels,
  kModel,
  kTokenize,
  kDetokenize,
  kHealthLive,
  kHealthReady,
  kMetrics,
  kVersion,
  kUnknown,  // no such resource, or the request could not be read
};
inline constexpr std::size_t kHttpRoutes = static_cast<std::size_t>(HttpRoute::kUnknown) + 1;

// "/v1/completions"; "other" for kUnknown.
std::string_view HttpRouteName(HttpRoute route);

// One answered request, for an access log. Never holds request or response text.
struct HttpAccess {
  HttpRoute route = HttpRoute::kUnknown;
  std::string_view method, path, remote, request_id;  // valid during the call
  int status = 0;
  std::uint64_t response_bytes = 0;  // of the body, framing included
  Duration duration{};   // from the last byte of the request's head to the last byte handed to the socket
  bool complete = true;  // false: the client left or the connection was cut before the end
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // an address or a name; IPv6 with or without brackets
  std::uint16_t port = 0;          // 0: any free port, see HttpServer::port()
  int io_threads = 2;

  std::int32_t max_connections = 4096;
  std::size_t max_header_bytes = 32 << 10;
  std::int64_t max_request_bytes = 8 << 20;  // of a body
  // Of all bodies together that are being received or wait to be read; beyond, requests get 429.
  std::int64_t max_pending_bytes = 256 << 20;
  std::int64_t max_stream_bytes = 4 << 20;  // unsent output of one stream beyond which the client is cut off
  int max_json_depth = 64;
  int max_prompts = 256;  // of one /v1/completions request; each takes a place among the live requests
  std::size_t inline_bytes = 16 << 10;  // bodies up to this are parsed and answers rendered on the I/O thread

  Duration header_timeout = std::chrono::seconds(10);  // from a request's first byte to the end of its head
  Duration body_timeout = std::chrono::seconds(60);    // from there to the end of its body
  Duration idle_timeout = std::chrono::seconds(120);   // between requests, and before the first
  Duration write_timeout = std::chrono::seconds(60);   // the client takes not a single byte for so long
  Duration keep_alive_interval = std::chrono::seconds(10);  // a stream silent for so long gets an SSE comment
  Duration linger_timeout =
      std::chrono::seconds(2);  // reading on after an early refusal, so that it can be read
  int send_buffer_bytes = 0;    // SO_SNDBUF; 0: the system's

  std::string version;                   // for /version
  std::function<std::string()> metrics;  // Prometheus text; empty: 404. This and `access` are
                                         // called on I/O threads, several at once, and must be quick
  std::function<void(const HttpAccess&)> access;
};

// A snapshot of what has happened since Create.
struct HttpStats {
  std::int64_t open_connections = 0;
  std::int64_t open_streams = 0;
  std::int64_t body_bytes = 0;  // held by requests that arrive or wait to be read
  std::uint64_t accepted_connections = 0;
  std::uint64_t refused_connections = 0;  // over max_connections
  std::uint64_t accept_errors = 0;        // out of file descriptors and the like
  std::uint64_t streams_cut = 0;          // the client read too slowly
  std::uint64_t disconnects = 0;          // the client left before its answer was complete
  std::uint64_t timeouts = 0;             // slow heads and bodies

  struct Requests {
    HttpRoute route = HttpRoute::kUnknown;
    int status = 0;
    std::uint64_t count = 0;
  };
  std::vector<Requests> requests;  // answered so far; only counts above zero
};

class HttpServer {
 public:
  // InvalidArgument names the option at fault. Opens nothing.
  static Result<std::unique_ptr<HttpServer>> Create(HttpServerOptions options, InferenceService& service);

  // Stop() without grace.
  virtual ~HttpServer() = default;

  // Takes the port. AlreadyExists when something listens there, InvalidArgument for an address that is none
  // of ours.
  virtual Status Bind() = 0;
  // After Bind. Returns at once.
  virtual Status Start() = 0;
  // Stops accepting, closes idle connections, lets requests under way finish for `grace`, ends the rest with
  // an error, joins the threads. Idempotent. Not from an I/O thread (access and metrics hooks).
  virtual void Stop(Duration grace) = 0;

  virtual std::uint16_t port() const = 0;  // the bound one; 0 before Bind
  virtual HttpStats Stats() const = 0;     // from any thread
};

}  // namespace skipjack
