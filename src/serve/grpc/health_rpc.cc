#include "serve/grpc/health_rpc.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/thread_name.h"

namespace skipjack {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// One Watch call. Sends a state when it differs from the last one sent; while a write is under way only the
// newest state waits.
class HealthRpc::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse>,
                                 public std::enable_shared_from_this<Watcher> {
 public:
  Watcher(HealthRpc& owner, std::string service) : owner_(owner), service_(std::move(service)) {}

  const std::string& service() const { return service_; }

  void Update(ServingStatus status) {
    std::unique_lock lock(mutex_);
    if (end_) return;
    wanted_ = status;
    Advance(std::move(lock));
  }

  // After the last state went out.
  void End(grpc::Status status) {
    std::unique_lock lock(mutex_);
    if (!end_) end_ = std::move(status);
    Advance(std::move(lock));
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock lock(mutex_);
    writing_ = false;
    if (!ok && !end_) end_ = grpc::Status::CANCELLED;
    broken_ = broken_ || !ok;
    Advance(std::move(lock));
  }

  void OnCancel() override {
    std::unique_lock lock(mutex_);
    broken_ = true;
    if (!end_) end_ = grpc::Status::CANCELLED;
    Advance(std::move(lock));
  }

  void OnDone() override {
    const std::shared_ptr<Watcher> self = shared_from_this();
    std::lock_guard lock(owner_.mutex_);
    owner_.watchers_.erase(self);
  }

 private:
  void Advance(std::unique_lock<std::mutex> lock) {
    if (writing_ || finishing_) return;
    if (!broken_ && wanted_ && wanted_ != sent_) {
      writing_ = true;
      sent_ = wanted_;
      message_.set_status(*wanted_);
      lock.unlock();
      StartWrite(&message_);
      return;
    }
    if (!end_) return;
    finishing_ = true;
    const grpc::Status end = *end_;
    lock.unlock();
    Finish(end);
  }

  HealthRpc& owner_;
  const std::string service_;
  std::mutex mutex_;  // never held while gRPC is called
  std::optional<ServingStatus> wanted_, sent_;
  std::optional<grpc::Status> end_;
  bool writing_ = false;
  bool broken_ = false;
  bool finishing_ = false;
  HealthCheckResponse message_;
};

HealthRpc::HealthRpc(std::map<std::string, Readiness> services, Duration interval)
    : services_(std::move(services)), interval_(interval), thread_([this] { Run(); }) {}

HealthRpc::~HealthRpc() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void HealthRpc::Poke() {
  {
    std::lock_guard lock(mutex_);
    poked_ = true;
  }
  wake_.notify_all();
}

void HealthRpc::Shutdown() {
  std::set<std::shared_ptr<Watcher>> watchers;
  {
    std::lock_guard lock(mutex_);
    shut_down_ = true;
    watchers = watchers_;
  }
  for (const std::shared_ptr<Watcher>& watcher : watchers) {
    if (services_.contains(watcher->service())) watcher->Update(HealthCheckResponse::NOT_SERVING);
    watcher->End({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  }
}

grpc::ServerUnaryReactor* HealthRpc::Check(grpc::CallbackServerContext* context,
                                           const HealthCheckRequest* request, HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const ServingStatus status = StatusOf(request->service());
  if (status == HealthCheckResponse::SERVICE_UNKNOWN) {
    reactor->Finish({grpc::StatusCode::NOT_FOUND, "no service '" + request->service() + "' is here"});
    return reactor;
  }
  response->set_status(status);
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthRpc::Watch(grpc::CallbackServerContext* /*context*/,
                                                                const HealthCheckRequest* request) {
  const auto watcher = std::make_shared<Watcher>(*this, request->service());
  bool shut_down = false;
  {
    std::lock_guard lock(mutex_);
    watchers_.insert(watcher);
    shut_down = shut_down_;
  }
  watcher->Update(StatusOf(request->service()));
  if (shut_down) {
    watcher->End({grpc::StatusCode::UNAVAILABLE, "the server is shutting down"});
  } else {
    Poke();  // begins to look at intervals
  }
  return watcher.get();
}

HealthRpc::ServingStatus HealthRpc::StatusOf(const std::string& service) const {
  const auto it = services_.find(service);
  if (it == services_.end()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return it->second().ok() ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

void HealthRpc::Run() {
  SetThreadName("grpc-health");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const auto woken = [this] { return stopping_ || poked_; };
    if (watchers_.empty()) {
      wake_.wait(lock, woken);
    } else {
      wake_.wait_for(lock, interval_, woken);
    }
    poked_ = false;
    if (shut_down_ || stopping_) continue;
    const std::vector<std::shared_ptr<Watcher>> watchers(watchers_.begin(), watchers_.end());
    lock.unlock();
    for (const std::shared_ptr<Watcher>& watcher : watchers) watcher->Update(StatusOf(watcher->service()));
    lock.lock();
  }
}

}  // namespace skipjack
