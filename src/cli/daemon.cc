#include "cli/daemon.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "cli/progress_bar.h"
#include "obs/metrics_page.h"
#include "registry/model_registry.h"
#include "serve/http/http_server.h"
#include "serve/inference_service.h"
#ifdef SKIPJACK_WITH_GRPC
#include "serve/grpc/grpc_server.h"
#endif

namespace skipjack::cli {
namespace {

std::string Address(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

std::int32_t MaxWaitingSequences(const ServerLimits& limits) {
  return limits.max_queued * limits.max_n;
}

InferenceServiceOptions ServiceOptions(const ServerLimits& limits) {
  InferenceServiceOptions options;
  options.max_live_requests = limits.max_queued;
  options.max_n = limits.max_n;
  options.max_timeout = FromSeconds(limits.request_timeout_seconds);
  return options;
}

// Probes are many and say little; everything else is worth a line.
void LogAccess(const HttpAccess& access) {
  const bool probe = access.route == HttpRoute::kHealthLive || access.route == HttpRoute::kHealthReady ||
                     access.route == HttpRoute::kMetrics;
  spdlog::log(probe ? spdlog::level::debug : spdlog::level::info, "http {} {} {} {} bytes {:.1f} ms {}{}",
              access.method, HttpRouteName(access.route), access.status, access.response_bytes,
              ToSeconds(access.duration) * 1e3, access.request_id, access.complete ? "" : " (client left)");
}

class Daemon {
 public:
  Daemon(const DaemonConfig& config, const DaemonOptions& options, Signals* signals)
      : config_(config),
        options_(options),
        signals_(signals),
        registry_([this](const std::string& model) { return MakeObserver(model); },
                  MaxWaitingSequences(config.server.limits)),
        service_(CreateInferenceService(registry_, ServiceOptions(config.server.limits))) {}

  int Run() {
    for (const ModelEntry& entry : config_.models) registry_.Declare(entry.name);
    if (const Status status = Listen(); !status.ok()) {
      spdlog::error("{}", status.message());
      return 1;
    }
    AddMetrics();
    const bool loaded = LoadModels();
    if (loaded && !stop_signal_) {
      AnnounceReady();
      while (!stop_signal_) stop_signal_ = signals_->Wait(std::nullopt);
    }
    Stop();
    return loaded || stop_signal_ ? 0 : 1;
  }

 private:
  Status Listen() {
    if (config_.server.http_enabled) {
      if (Status status = ListenHttp(); !status.ok()) return status;
    }
#ifdef SKIPJACK_WITH_GRPC
    if (config_.server.grpc_enabled) {
      if (Status status = ListenGrpc(); !status.ok()) return status;
    }
#endif
    return http_ ? http_->Start() : Status();
  }

  Status ListenHttp() {
    const ServerConfig& server = config_.server;
    HttpServerOptions options;
    options.host = server.http.host;
    options.port = server.http.port;
    options.max_connections = server.limits.max_connections;
    options.max_request_bytes = server.limits.max_request_bytes;
    options.max_stream_bytes = server.limits.max_stream_bytes;
    options.header_timeout = FromSeconds(server.limits.header_timeout_seconds);
    options.idle_timeout = FromSeconds(server.limits.idle_timeout_seconds);
    options.version = SKIPJACK_VERSION;
    options.metrics = [this] { return metrics_.Render(); };
    options.access = LogAccess;
    Result<std::unique_ptr<HttpServer>> http = HttpServer::Create(std::move(options), *service_);
    if (!http.ok()) return http.status();
    http_ = std::move(http).value();
    if (Status status = http_->Bind(); !status.ok()) return status;
    http_address_ = Address(server.http.host, http_->port());
    spdlog::info("http listens on {}", http_address_);
    return {};
  }

#ifdef SKIPJACK_WITH_GRPC
  Status ListenGrpc() {
    const ServerConfig& server = config_.server;
    GrpcServerOptions options;
    options.host = server.grpc.host;
    options.port = server.grpc.port;
    options.max_request_bytes = server.limits.max_request_bytes;
    options.max_stream_bytes = server.limits.max_stream_bytes;
    options.version = SKIPJACK_VERSION;
    Result<std::unique_ptr<GrpcServer>> grpc = GrpcServer::Start(*service_, registry_, options);
    if (!grpc.ok()) return grpc.status();
    grpc_ = std::move(grpc).value();
    grpc_address_ = Address(server.grpc.host, grpc_->port());
    spdlog::info("grpc listens on {}", grpc_address_);
    return {};
  }
#endif

  std::shared_ptr<EngineObserver> MakeObserver(const std::string& model) {
    auto metrics = std::make_shared<EngineMetrics>(model);
    metrics_.AddEngine(
        model, [this, model] { return StatsOf(model); }, metrics);
    return metrics;
  }

  EngineStats StatsOf(const std::string& model) const {
    const Result<std::shared_ptr<ServedModel>> served = registry_.Find(model);
    return served.ok() ? (*served)->engine->Stats() : EngineStats();
  }

  void AddMetrics() {
    metrics_.Add(ProcessFamilies);
    metrics_.Add([this] { return ServerFamilies(); });
  }

  std::vector<prometheus::MetricFamily> ServerFamilies() const {
    std::vector<prometheus::MetricFamily> families = {
        GaugeFamily("skipjack_ready",
                    "1 when every model is loaded and healthy and the server is not draining",
                    {{{}, service_->Ready().ok() ? 1.0 : 0.0}}),
        GaugeFamily("skipjack_live_requests", "Accepted and not finished",
                    {{{}, 1.0 * service_->LiveRequests()}}),
        GaugeFamily("skipjack_build_info", "Always 1; the version is in the label",
                    {{{{"version", SKIPJACK_VERSION}}, 1.0}}),
    };
    if (http_) AddHttpFamilies(&families);
#ifdef SKIPJACK_WITH_GRPC
    if (grpc_) {
      const GrpcServerStats stats = grpc_->Stats();
      families.push_back(GaugeFamily("skipjack_grpc_open_streams", "Generate calls under way",
                                     {{{}, 1.0 * stats.open_streams}}));
      families.push_back(CounterFamily("skipjack_grpc_calls_total", "Calls of Inference and Admin",
                                       {{{}, static_cast<double>(stats.calls)}}));
      families.push_back(CounterFamily("skipjack_grpc_cancelled_calls_total",
                                       "Calls whose client left or cancelled",
                                       {{{}, static_cast<double>(stats.cancelled_calls)}}));
      families.push_back(CounterFamily("skipjack_grpc_slow_clients_cut_total",
                                       "Streams cut because they were not read",
                                       {{{}, static_cast<double>(stats.slow_clients_cut)}}));
    }
#endif
    return families;
  }

  void AddHttpFamilies(std::vector<prometheus::MetricFamily>* families) const {
    const HttpStats stats = http_->Stats();
    std::vector<MetricSample> requests;
    for (const HttpStats::Requests& entry : stats.requests) {
      requests.push_back(
          {{{"route", std::string(HttpRouteName(entry.route))}, {"code", std::to_string(entry.status)}},
           static_cast<double>(entry.count)});
    }
    families->push_back(CounterFamily("skipjack_http_requests_total", "Answered HTTP requests", requests));
    families->push_back(GaugeFamily("skipjack_http_open_connections", "Open HTTP connections",
                                    {{{}, static_cast<double>(stats.open_connections)}}));
    families->push_back(CounterFamily("skipjack_http_streams_cut_total",
                                      "Streams cut because they were not read",
                                      {{{}, static_cast<double>(stats.streams_cut)}}));
    families->push_back(CounterFamily("skipjack_http_disconnects_total",
                                      "Clients that left before their answer ended",
                                      {{{}, static_cast<double>(stats.disconnects)}}));
    families->push_back(CounterFamily("skipjack_http_refused_connections_total", "Connections over the limit",
                                      {{{}, static_cast<double>(stats.refused_connections)}}));
    families->push_back(CounterFamily("skipjack_http_timeouts_total", "Requests that arrived too slowly",
                                      {{{}, static_cast<double>(stats.timeouts)}}));
  }

  // Loads on a thread of its own, so that a signal is seen meanwhile. False when a model failed.
  bool LoadModels() {
    std::atomic<bool> done = false;
    bool loaded = true;
    std::thread loader([&] {
      for (const ModelEntry& entry : config_.models) {
        ProgressBar bar(entry.name);
        const Status status = registry_.Load(
            entry, [&](const std::string& phase, double fraction) { bar.Update(phase, fraction); });
        bar.Finish();
        if (status.ok()) continue;
        spdlog::error("model {} did not load: {}", entry.name, status.message());
        loaded = false;
        break;
      }
      done = true;
      signals_->Wake();
    });
    while (!done) {
      const std::optional<int> signal = signals_->Wait(std::nullopt);
      if (!signal) continue;
      if (stop_signal_) std::_Exit(128 + *signal);
      spdlog::info("signal {}: stopping once loading lets go (a second one ends at once)", *signal);
      stop_signal_ = signal;
    }
    loader.join();
    return loaded;
  }

  void AnnounceReady() {
    for (const std::shared_ptr<ServedModel>& model : registry_.Ready()) {
      spdlog::info("model {} is ready: {}", model->name, model->description);
    }
    spdlog::info("ready");
    if (options_.ready_file.empty()) return;
    // Written beside and renamed, so that a reader never sees half of it.
    const std::string temporary = options_.ready_file + ".tmp";
    {
      std::ofstream file(temporary);
      if (!grpc_address_.empty()) file << "grpc=" << grpc_address_ << "\n";
      if (!http_address_.empty()) file << "http=" << http_address_ << "\n";
    }
    if (std::rename(temporary.c_str(), options_.ready_file.c_str()) != 0) {
      spdlog::warn("cannot write the ready file {}", options_.ready_file);
    }
  }

  // Not ready, refuse new requests, let running ones finish within the grace, then force. A second signal
  // forces.
  void Stop() {
    service_->BeginDrain();
    const std::int32_t live = service_->LiveRequests();
    const double grace_seconds = config_.server.drain_grace_seconds;
    if (live > 0) spdlog::info("stopping: {} requests may finish within {} s", live, grace_seconds);
    std::atomic<bool> stopped = false;
    std::thread stopper([&] {
      std::vector<std::thread> stops;
      const Duration grace = FromSeconds(grace_seconds);
#ifdef SKIPJACK_WITH_GRPC
      if (grpc_) stops.emplace_back([&] { grpc_->Shutdown(grace); });
#endif
      if (http_) stops.emplace_back([&] { http_->Stop(grace); });
      for (std::thread& stop : stops) stop.join();
      stopped = true;
      signals_->Wake();
    });
    while (!stopped) {
      const std::optional<int> signal = signals_->Wait(std::nullopt);
      if (!signal) continue;
      spdlog::warn("signal {} while stopping: ending at once", *signal);
      std::_Exit(128 + *signal);
    }
    stopper.join();
    spdlog::info("stopped");
  }

  const DaemonConfig& config_;
  const DaemonOptions& options_;
  Signals* signals_;
  std::optional<int> stop_signal_;
  MetricsPage metrics_;
  ModelRegistry registry_;
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<HttpServer> http_;
#ifdef SKIPJACK_WITH_GRPC
  std::unique_ptr<GrpcServer> grpc_;
#endif
  std::string grpc_address_;
  std::string http_address_;
};

}  // namespace

int RunDaemon(const DaemonConfig& config, const DaemonOptions& options, Signals* signals) {
  return Daemon(config, options, signals).Run();
}

}  // namespace skipjack::cli
