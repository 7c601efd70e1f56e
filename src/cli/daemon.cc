#include "cli/daemon.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor_limit.h"
#include "base/timer_thread.h"
#include "cli/access_log.h"
#include "cli/daemon_metrics.h"
#include "cli/exit_guard.h"
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

// What was learnt is lost when the process is killed, as far as it is younger than this.
constexpr Duration kSaveEvery = std::chrono::minutes(5);

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
  options.max_pending_prompt_bytes = limits.max_pending_bytes;
  return options;
}

// What an operator wants to see of a process that does not stop.
std::string DescribeEngines(const std::vector<std::shared_ptr<ServedModel>>& models) {
  std::string text;
  for (const std::shared_ptr<ServedModel>& model : models) {
    const Status health = model->engine->Health();
    text += fmt::format("model {}: {} live sequences, {} steps, health: {}\n{}", model->name,
                        model->engine->Live(), model->engine->Stats().steps,
                        health.ok() ? "ok" : health.message(), model->engine->DebugString());
  }
  return text;
}

std::string DescribeRequests(const InferenceService& service) {
  constexpr std::size_t kMostListed = 20;
  std::string text = fmt::format("{} live requests\n", service.LiveRequests());
  for (const LiveRequest& request : service.ListRequests(kMostListed)) {
    text +=
        fmt::format("  {} on model '{}': {:.1f} s old, {} prompt tokens, {} generated\n", request.request_id,
                    request.model, ToSeconds(request.age), request.prompt_tokens, request.generated_tokens);
  }
  return text;
}

class Daemon {
 public:
  Daemon(const DaemonConfig& config, const DaemonOptions& options, Signals* signals, ExitGuard* guard)
      : config_(config),
        options_(options),
        signals_(signals),
        guard_(guard),
        registry_(RegistryOptions()),
        service_(CreateInferenceService(registry_, ServiceOptions(config.server.limits))) {}

  // Part by part, so that the guard can say which one hangs.
  ~Daemon() {
    std::vector<std::weak_ptr<ServedModel>> models;
    for (const std::shared_ptr<ServedModel>& model : registry_.Ready()) models.push_back(model);
    const auto engines = [models] {
      std::vector<std::shared_ptr<ServedModel>> left;
      for (const std::weak_ptr<ServedModel>& model : models) {
        if (std::shared_ptr<ServedModel> locked = model.lock()) left.push_back(std::move(locked));
      }
      return DescribeEngines(left);
    };
    const std::string requests = DescribeRequests(*service_);
    guard_->Enter("closing the ports", [=] { return requests + engines(); });
#ifdef SKIPJACK_WITH_GRPC
    grpc_.reset();
#endif
    http_.reset();
    guard_->Enter("ending the requests", [=] { return requests + engines(); });
    service_.reset();
    guard_->Enter("ending the engines", engines);
  }

  int Run() {
    for (const ModelEntry& entry : config_.models) registry_.Declare(entry.name);
    if (const Status status = Listen(); !status.ok()) {
      spdlog::error("{}", status.message());
      return kExitNotStarted;
    }
    AddMetrics();
    LoadModels();
    const bool loaded = failed_models_ == 0 || (config_.server.on_model_failure == "serve_others" &&
                                                failed_models_ < config_.models.size());
    if (loaded && !stopping_ && !broken_) {
      AnnounceReady();
      saver_ = std::make_unique<TimerThread>(clock_);
      SaveLater(saver_.get());
      while (!stop_signal_ && !broken_) stop_signal_ = signals_->Wait(std::nullopt);
    }
    if (broken_) spdlog::critical("an engine is out of order: ending, so that a restart can help");
    Stop();
    if (broken_) return kExitBroken;
    return loaded || stop_signal_ ? kExitOrderly : kExitNotStarted;
  }

 private:
  ModelRegistryOptions RegistryOptions() {
    ModelRegistryOptions options;
    options.loader = options_.loader;
    options.observers = [this](const std::string& model) { return MakeObserver(model); };
    options.on_broken = [this](const std::string& model, const Status& why) {
      spdlog::critical("model {} is not ready any more: {}", model, why.message());
      broken_ = true;
      signals_->Wake();
    };
    options.max_waiting_sequences = MaxWaitingSequences(config_.server.limits);
    options.serve_others = config_.server.on_model_failure == "serve_others";
    return options;
  }

  Status Listen() {
    const std::int32_t connections = config_.server.http_enabled ? config_.server.limits.max_connections : 0;
    if (Status status = ReserveDescriptors(MostOpenConnections(connections)); !status.ok()) return status;
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
    options.max_pending_bytes = server.limits.max_pending_bytes;
    options.max_stream_bytes = server.limits.max_stream_bytes;
    options.max_prompts = std::min(options.max_prompts, server.limits.max_queued);
    options.header_timeout = FromSeconds(server.limits.header_timeout_seconds);
    options.idle_timeout = FromSeconds(server.limits.idle_timeout_seconds);
    options.version = SKIPJACK_VERSION;
    options.metrics = [this] { return metrics_.Render(); };
    options.access = [this](const HttpAccess& access) { access_log_.Write(access); };
    Result<std::unique_ptr<HttpServer>> http = HttpServer::Create(std::move(options), *service_);
    if (!http.ok()) return http.status();
    http_ = std::move(http).value();
    if (Status status = http_->Bind(); !status.ok()) return status;
    addresses_.http = Address(server.http.host, http_->port());
    spdlog::info("http listens on {}", addresses_.http);
    return {};
  }

#ifdef SKIPJACK_WITH_GRPC
  Status ListenGrpc() {
    const ServerConfig& server = config_.server;
    GrpcServerOptions options;
    options.host = server.grpc.host;
    options.port = server.grpc.port;
    options.max_request_bytes = server.limits.max_request_bytes;
    options.max_pending_bytes = server.limits.max_pending_bytes;
    options.max_stream_bytes = server.limits.max_stream_bytes;
    options.version = SKIPJACK_VERSION;
    Result<std::unique_ptr<GrpcServer>> grpc = GrpcServer::Start(*service_, registry_, options);
    if (!grpc.ok()) return grpc.status();
    grpc_ = std::move(grpc).value();
    addresses_.grpc = Address(server.grpc.host, grpc_->port());
    spdlog::info("grpc listens on {}", addresses_.grpc);
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
    metrics_.Add([this] { return ServiceFamilies(*service_); });
    metrics_.Add([this] { return HttpFamilies(http_->Stats()); });  // without HTTP nobody asks
#ifdef SKIPJACK_WITH_GRPC
    if (grpc_) metrics_.Add([this] { return GrpcFamilies(grpc_->Stats()); });
#endif
  }

  // All of them, so that all errors are reported at once. On a thread of its own, so that a signal is seen
  // meanwhile.
  void LoadModels() {
    std::atomic<bool> done = false;
    std::thread loader([&] {
      for (const ModelEntry& entry : config_.models) {
        if (!cancel_loading_) LoadModel(entry);
      }
      done = true;
      signals_->Wake();
    });
    while (!done && !stop_signal_) stop_signal_ = signals_->Wait(std::nullopt);
    if (stop_signal_ && !done) {
      spdlog::info("signal {}: stopping as soon as loading lets go (a second one ends at once)",
                   *stop_signal_);
      cancel_loading_ = true;
    }
    if (stop_signal_) BeginStop("loading models");
    loader.join();
  }

  void LoadModel(const ModelEntry& entry) {
    Status status;
    if (config_.log.format == "text") {
      ProgressBar bar(entry.name);
      status = registry_.Load(
          entry, [&](const std::string& phase, double fraction) { bar.Update(phase, fraction); },
          &cancel_loading_);
    } else {
      // A bar is no JSON.
      std::string last;
      const auto log = [&](const std::string& phase, double) {
        if (phase != std::exchange(last, phase)) spdlog::info("model {}: {}", entry.name, phase);
      };
      status = registry_.Load(entry, log, &cancel_loading_);
    }
    if (status.ok()) return;
    ++failed_models_;
    if (!cancel_loading_) spdlog::error("model {} did not load: {}", entry.name, status.message());
  }

  void AnnounceReady() {
    for (const std::shared_ptr<ServedModel>& model : registry_.Ready()) {
      spdlog::info("model {} is ready: {}", model->name, model->description);
    }
    spdlog::info("ready");
    if (options_.on_ready) options_.on_ready(addresses_);
  }

  // Not ready and refuses new requests. From now on the process ends within a bounded time.
  void BeginStop(const std::string& stage) {
    if (std::exchange(stopping_, true)) return;
    service_->BeginDrain();
    double longest_step = 0;
    for (const std::shared_ptr<ServedModel>& model : registry_.Ready()) {
      longest_step = std::max(longest_step, model->engine->Stats().longest_step_seconds);
    }
    guard_->Enter(stage, [this] { return DescribeRequests(*service_) + DescribeEngines(registry_.Ready()); });
    guard_->Arm(FromSeconds(config_.server.drain_grace_seconds) + options_.stop_margin +
                FromSeconds(2 * longest_step));
  }

  // Lets running requests finish within the grace, then forces.
  void Stop() {
    BeginStop("finishing requests");
    const std::int32_t live = service_->LiveRequests();
    const double grace_seconds = config_.server.drain_grace_seconds;
    if (live > 0) spdlog::info("stopping: {} requests may finish within {} s", live, grace_seconds);
    std::vector<std::thread> stops;
    const Duration grace = FromSeconds(grace_seconds);
#ifdef SKIPJACK_WITH_GRPC
    if (grpc_) stops.emplace_back([&] { grpc_->Shutdown(grace); });
#endif
    if (http_) stops.emplace_back([&] { http_->Stop(grace); });
    for (std::thread& stop : stops) stop.join();
    SaveLast();
  }

  // What an engine learnt that is out of order is not worth keeping.
  void SaveLast() {
    if (!saver_) return;
    guard_->Enter("saving what was learnt", [this] { return DescribeEngines(registry_.Ready()); });
    if (!broken_) saver_->Post([this] { registry_.SaveLearnt(); });
    saver_.reset();
  }

  // On the saver's thread, so that a slow disk holds up nobody.
  void SaveLater(TimerThread* saver) {
    saver->At(clock_.Now() + kSaveEvery, [this, saver] {
      registry_.SaveLearnt();
      SaveLater(saver);
    });
  }

  const DaemonConfig& config_;
  const DaemonOptions& options_;
  Signals* const signals_;
  ExitGuard* const guard_;
  const SystemClock clock_;
  AccessLog access_log_{clock_};
  std::optional<int> stop_signal_;
  bool stopping_ = false;
  std::atomic<bool> broken_ = false;
  std::atomic<bool> cancel_loading_ = false;
  std::size_t failed_models_ = 0;
  DaemonAddresses addresses_;
  MetricsPage metrics_;
  ModelRegistry registry_;
  std::unique_ptr<TimerThread> saver_;  // writes what was learnt
  std::unique_ptr<InferenceService> service_;
  std::unique_ptr<HttpServer> http_;
#ifdef SKIPJACK_WITH_GRPC
  std::unique_ptr<GrpcServer> grpc_;
#endif
};

}  // namespace

int RunDaemon(const DaemonConfig& config, const DaemonOptions& options, Signals* signals) {
  ExitGuard guard(signals);
  auto daemon = std::make_unique<Daemon>(config, options, signals, &guard);
  const int status = daemon->Run();
  daemon.reset();
  spdlog::info("stopped");
  return status;
}

}  // namespace skipjack::cli
