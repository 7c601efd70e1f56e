// grpc.health.v1: readiness as orchestrators ask for it. Check looks afresh each time; a thread looks for the
// watchers, at intervals while there are any and whenever it is told that something changed.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/status.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace skipjack {

class HealthRpc final : public grpc::health::v1::Health::CallbackService {
 public:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;
  using Readiness = std::function<Status()>;

  // The services and what says whether each can serve; thread-safe. The empty name is the whole server.
  HealthRpc(std::map<std::string, Readiness> services, Duration interval);
  ~HealthRpc() override;

  // Look now.
  void Poke();
  // Tells the watchers that nothing serves any more, and ends their calls.
  void Shutdown();

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context, const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;

  // SERVICE_UNKNOWN for a service that is not here.
  ServingStatus StatusOf(const std::string& service) const;
  void Run();

  const std::map<std::string, Readiness> services_;
  const Duration interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::set<std::shared_ptr<Watcher>> watchers_;  // until each one's call is done
  bool poked_ = false;
  bool shut_down_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace skipjack
