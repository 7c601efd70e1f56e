#include "serve/grpc/grpc_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "serve/grpc/admin_rpc.h"
#include "serve/grpc/generate_stream.h"
#include "serve/grpc/health_rpc.h"
#include "serve/grpc/inference_rpc.h"

namespace skipjack {
namespace {

// What connections and calls need themselves, beside the messages.
constexpr std::int64_t kConnectionMemory = 64 << 20;
// How long clients get to take the last status of calls that a shutdown ended.
constexpr Duration kFlushTime = std::chrono::seconds(1);

int Milliseconds(Duration d) {
  const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  return static_cast<int>(std::clamp<std::int64_t>(count, 1, std::numeric_limits<int>::max()));
}

std::string Address(const GrpcServerOptions& options) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", options.port);
}

// gRPC says only that it could not bind. Trying it ourselves tells why.
std::string WhyNotBound(const GrpcServerOptions& options) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(options.host.c_str(), std::to_string(options.port).c_str(), &hints, &found);
  if (error != 0) return gai_strerror(error);
  std::string why = "unknown reason";
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 1) != 0) why = std::strerror(errno);
  close(fd);
  freeaddrinfo(found);
  return why;
}

void LogFromGrpc(gpr_log_func_args* args) {
  const auto level = args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "grpc: {}", args->message);
}

// What gRPC keeps for the whole process.
void SetUpProcess() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Held until the process ends: where the last user lets go, gRPC takes itself apart, and joining its own
    // threads can take ten seconds.
    grpc_init();
    gpr_set_log_function(LogFromGrpc);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

void Configure(const GrpcServerOptions& options, grpc::ServerBuilder* builder) {
  // Without this a second server could share the port and take half of the calls.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_interval));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(options.keepalive_timeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              Milliseconds(options.min_ping_interval));
  builder->SetMaxReceiveMessageSize(
      static_cast<int>(std::min<std::int64_t>(options.max_request_bytes, std::numeric_limits<int>::max())));
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_calls_per_connection);
  // Messages that are being received count here; gRPC ends calls when they are too much.
  grpc::ResourceQuota quota("skipjack");
  quota.Resize(static_cast<std::size_t>(options.max_pending_bytes + kConnectionMemory));
  builder->SetResourceQuota(quota);
  // Only reflection uses gRPC's synchronous threads.
  builder->SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder->SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

class Server final : public GrpcServer {
 public:
  Server(InferenceService& service, ModelRegistry& registry, const GrpcServerOptions& options)
      : inference_(
            service, counts_,
            {.max_stream_bytes = options.max_stream_bytes, .max_pending_bytes = options.max_pending_bytes}),
        admin_(service, registry, counts_, options.version, [this] { health_.Poke(); }),
        health_({{"", [&service] { return service.Ready(); }},
                 {v1::Inference::service_full_name(), [&service] { return service.Ready(); }},
                 {v1::Admin::service_full_name(), [] { return Status(); }}},
                options.health_interval) {}

  ~Server() override { Shutdown(Duration::zero()); }

  Status Listen(const GrpcServerOptions& options) {
    grpc::ServerBuilder builder;
    Configure(options, &builder);
    builder.AddListeningPort(Address(options), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&inference_);
    builder.RegisterService(&admin_);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    if (server_ && port_ > 0) return {};
    return Status::FailedPrecondition(
        fmt::format("gRPC cannot listen on {}: {}", Address(options), WhyNotBound(options)));
  }

  int port() const override { return port_; }

  GrpcServerStats Stats() const override {
    return {.open_streams = inference_.streams().Count(),
            .calls = counts_.begun(),
            .cancelled_calls = inference_.streams().cancelled,
            .slow_clients_cut = inference_.streams().cut,
            .requests = counts_.Snapshot()};
  }

  void Shutdown(Duration grace) override {
    std::lock_guard lock(shutdown_mutex_);
    if (!server_ || shut_down_) return;
    shut_down_ = true;
    health_.Poke();
    if (!inference_.streams().WaitUntilEmpty(grace)) {
      for (const auto& stream : inference_.streams().List()) {
        stream->Cancel(Status::Unavailable("the server is shutting down"));
      }
    }
    health_.Shutdown();
    server_->Shutdown(std::chrono::system_clock::now() + kFlushTime);
    server_->Wait();
  }

 private:
  CallCounts counts_;
  InferenceRpc inference_;
  AdminRpc admin_;
  HealthRpc health_;
  int port_ = 0;
  std::mutex shutdown_mutex_;
  bool shut_down_ = false;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(InferenceService& service, ModelRegistry& registry,
                                                      const GrpcServerOptions& options) {
  SetUpProcess();
  auto server = std::make_unique<Server>(service, registry, options);
  if (Status s = server->Listen(options); !s.ok()) return s;
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace skipjack
