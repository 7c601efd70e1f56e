#include "serve/http/http_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include <boost/asio/post.hpp>

#include "serve/http/io_thread.h"
#include "serve/http/listener.h"
#include "serve/http/server_context.h"

namespace skipjack {
namespace http {
namespace {

Status CheckOptions(const HttpServerOptions& options) {
  const auto positive = [](const char* name, auto value) {
    return value > 0 ? Status::Ok()
                     : Status::InvalidArgument(std::string(name) + " must be at least 1, got " +
                                               std::to_string(value));
  };
  for (const Status& status :
       {positive("io_threads", options.io_threads), positive("max_connections", options.max_connections),
        positive("max_header_bytes", options.max_header_bytes),
        positive("max_request_bytes", options.max_request_bytes),
        positive("max_stream_bytes", options.max_stream_bytes),
        positive("max_pending_bytes", options.max_pending_bytes),
        positive("max_json_depth", options.max_json_depth), positive("max_prompts", options.max_prompts),
        positive("header_timeout", options.header_timeout.count()),
        positive("body_timeout", options.body_timeout.count()),
        positive("idle_timeout", options.idle_timeout.count()),
        positive("write_timeout", options.write_timeout.count()),
        positive("keep_alive_interval", options.keep_alive_interval.count()),
        positive("linger_timeout", options.linger_timeout.count())}) {
    if (!status.ok()) return status;
  }
  if (options.max_pending_bytes < options.max_request_bytes) {
    return Status::InvalidArgument(
        "max_pending_bytes = " + std::to_string(options.max_pending_bytes) +
        " must not be less than max_request_bytes = " + std::to_string(options.max_request_bytes));
  }
  return Status::Ok();
}

class AsioHttpServer final : public HttpServer {
 public:
  AsioHttpServer(HttpServerOptions options, InferenceService& service)
      : context_(std::move(options), service) {
    for (int i = 0; i < context_.options.io_threads; ++i)
      threads_.push_back(std::make_unique<IoThread>(context_));
  }

  ~AsioHttpServer() override {
    Stop(Duration::zero());
    if (bound_.descriptor >= 0) ::close(bound_.descriptor);
  }

  Status Bind() override {
    if (bound_.port != 0) return Status::FailedPrecondition("the HTTP server is bound already");
    Result<BoundSocket> bound = BindListeningSocket(context_.options.host, context_.options.port);
    if (!bound.ok()) return bound.status();
    bound_ = *bound;
    return Status::Ok();
  }

  Status Start() override {
    if (bound_.descriptor < 0)
      return Status::FailedPrecondition("the HTTP server must be bound, and starts only once");
    listener_.emplace(threads_.front()->loop(), std::exchange(bound_.descriptor, -1), context_.stats,
                      [this](int socket, std::string remote) { OnAccepted(socket, std::move(remote)); });
    boost::asio::post(threads_.front()->loop(), [this] { listener_->Start(); });
    for (const auto& thread : threads_) thread->Start();
    return Status::Ok();
  }

  void Stop(Duration grace) override {
    if (!listener_ || std::exchange(stopped_, true)) return;
    std::promise<void> closed;
    boost::asio::post(threads_.front()->loop(), [this, &closed] {
      listener_->Close();
      closed.set_value();
    });
    closed.get_future().wait();
    for (const auto& thread : threads_) thread->BeginDrain();
    if (!AwaitNoConnections(grace)) {
      for (const auto& thread : threads_)
        thread->ForceClose({StatusCode::kUnavailable, "the server is stopping"});
    }
    for (const auto& thread : threads_) thread->Join();
  }

  std::uint16_t port() const override { return bound_.port; }
  HttpStats Stats() const override {
    HttpStats stats = context_.stats.Snapshot();
    stats.body_bytes = context_.body_bytes->total() - context_.body_bytes->left();
    return stats;
  }

 private:
  // What exceeds even MostOpenConnections is closed at once.
  void OnAccepted(int socket, std::string remote) {
    const std::int64_t limit = context_.options.max_connections;
    const std::int64_t open = context_.stats.open_connections;
    if (open >= limit) ++context_.stats.refused_connections;
    if (open >= MostOpenConnections(context_.options.max_connections)) {
      ::close(socket);
      return;
    }
    if (context_.options.send_buffer_bytes > 0) {
      const int bytes = context_.options.send_buffer_bytes;
      ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    }
    ++context_.stats.accepted_connections;
    ++context_.stats.open_connections;
    const auto& idlest = *std::min_element(
        threads_.begin(), threads_.end(), [](const auto& a, const auto& b) { return a->load() < b->load(); });
    idlest->Adopt(socket, std::move(remote), open >= limit);
  }

  bool AwaitNoConnections(Duration grace) {
    std::unique_lock lock(context_.closed_mutex);
    return context_.closed.wait_for(lock, grace, [this] { return context_.stats.open_connections == 0; });
  }

  ServerContext context_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  BoundSocket bound_;  // the descriptor until Start
  std::optional<Listener> listener_;
  bool stopped_ = false;
};

}  // namespace
}  // namespace http

Result<std::unique_ptr<HttpServer>> HttpServer::Create(HttpServerOptions options, InferenceService& service) {
  if (Status status = http::CheckOptions(options); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(std::make_unique<http::AsioHttpServer>(std::move(options), service));
}

}  // namespace skipjack
