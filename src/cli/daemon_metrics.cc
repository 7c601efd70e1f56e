#include "cli/daemon_metrics.h"

#include <string>

#include "obs/metrics_page.h"

namespace skipjack::cli {
namespace {

template <typename Number>
std::vector<MetricSample> One(Number value) {
  return {{{}, static_cast<double>(value)}};
}

}  // namespace

std::vector<prometheus::MetricFamily> ServiceFamilies(const InferenceService& service) {
  const RefusalCounts refused = service.Refusals();
  const auto reason = [](const char* name, std::uint64_t count) {
    return MetricSample{{{"reason", name}}, static_cast<double>(count)};
  };
  return {
      GaugeFamily("skipjack_ready", "1 when every model is loaded and healthy and the server is not draining",
                  One(service.Ready().ok() ? 1 : 0)),
      GaugeFamily("skipjack_live_requests", "Accepted and not finished", One(service.LiveRequests())),
      CounterFamily("skipjack_refused_requests_total",
                    "Requests refused before they reached an engine, by reason",
                    {reason("queue_full", refused.queue_full), reason("prompt_bytes", refused.prompt_bytes),
                     reason("draining", refused.draining), reason("not_serving", refused.not_serving),
                     reason("not_found", refused.not_found), reason("invalid", refused.invalid)}),
      GaugeFamily("skipjack_build_info", "Always 1; the version is in the label",
                  {{{{"version", SKIPJACK_VERSION}}, 1.0}}),
  };
}

std::vector<prometheus::MetricFamily> HttpFamilies(const HttpStats& stats) {
  std::vector<MetricSample> requests;
  for (const HttpStats::Requests& entry : stats.requests) {
    requests.push_back(
        {{{"route", std::string(HttpRouteName(entry.route))}, {"code", std::to_string(entry.status)}},
         static_cast<double>(entry.count)});
  }
  return {
      CounterFamily("skipjack_http_requests_total", "Answered HTTP requests", requests),
      GaugeFamily("skipjack_http_open_connections", "Open HTTP connections", One(stats.open_connections)),
      CounterFamily("skipjack_http_accepted_connections_total", "Accepted HTTP connections",
                    One(stats.accepted_connections)),
      CounterFamily("skipjack_http_accept_errors_total",
                    "Connections that could not be accepted, for want of descriptors", One(stats.accept_errors)),
      GaugeFamily("skipjack_http_pending_body_bytes", "Held by requests that arrive or wait to be read",
                  One(stats.body_bytes)),
      CounterFamily("skipjack_http_streams_cut_total", "Streams cut because they were not read",
                    One(stats.streams_cut)),
      CounterFamily("skipjack_http_disconnects_total", "Clients that left before their answer ended",
                    One(stats.disconnects)),
      CounterFamily("skipjack_http_refused_connections_total", "Connections over the limit",
                    One(stats.refused_connections)),
      CounterFamily("skipjack_http_timeouts_total", "Requests that arrived too slowly", One(stats.timeouts)),
  };
}

#ifdef SKIPJACK_WITH_GRPC
std::vector<prometheus::MetricFamily> GrpcFamilies(const GrpcServerStats& stats) {
  std::vector<MetricSample> requests;
  for (const GrpcServerStats::Requests& entry : stats.requests) {
    requests.push_back({{{"method", std::string(entry.method)}, {"code", std::string(entry.code)}},
                        static_cast<double>(entry.count)});
  }
  return {
      CounterFamily("skipjack_grpc_requests_total", "Answered gRPC calls", requests),
      GaugeFamily("skipjack_grpc_open_streams", "Generate calls under way", One(stats.open_streams)),
      CounterFamily("skipjack_grpc_calls_total", "Calls of Inference and Admin", One(stats.calls)),
      CounterFamily("skipjack_grpc_cancelled_calls_total", "Calls whose client left or cancelled",
                    One(stats.cancelled_calls)),
      CounterFamily("skipjack_grpc_slow_clients_cut_total", "Streams cut because they were not read",
                    One(stats.slow_clients_cut)),
  };
}
#endif

}  // namespace skipjack::cli
