// How many calls ended with which status, by method.
#pragma once

#include <grpcpp/grpcpp.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include "serve/grpc/grpc_server.h"

namespace skipjack {

enum class RpcMethod : std::uint8_t {
  kGenerate,
  kTokenize,
  kDetokenize,
  kListModels,
  kGetModel,
  kStatus,
  kCancel,
  kDrain,
  kExplain,
};

// Thread-safe.
class CallCounts {
 public:
  void CountBegin() { ++begun_; }
  // Before the status goes out, so that a client that has it finds it counted.
  void CountEnd(RpcMethod method, grpc::StatusCode code);

  std::uint64_t begun() const { return begun_; }
  std::vector<GrpcServerStats::Requests> Snapshot() const;

 private:
  static constexpr std::size_t kMethods = static_cast<std::size_t>(RpcMethod::kExplain) + 1;
  static constexpr std::size_t kCodes = static_cast<std::size_t>(grpc::StatusCode::UNAUTHENTICATED) + 1;

  std::atomic<std::uint64_t> begun_{0};
  std::array<std::array<std::atomic<std::uint64_t>, kCodes>, kMethods> ended_{};
};

}  // namespace skipjack
