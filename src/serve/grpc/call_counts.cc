#include "serve/grpc/call_counts.h"

#include <algorithm>

#include "base/status.h"

namespace skipjack {
namespace {

// In the order of RpcMethod.
constexpr std::array<std::string_view, 9> kNames = {
    "Generate", "Tokenize", "Detokenize", "ListModels", "GetModel", "Status", "Cancel", "Drain", "Explain"};

}  // namespace

void CallCounts::CountEnd(RpcMethod method, grpc::StatusCode code) {
  const std::size_t index = std::min(static_cast<std::size_t>(code), kCodes - 1);
  ++ended_[static_cast<std::size_t>(method)][index];
}

std::vector<GrpcServerStats::Requests> CallCounts::Snapshot() const {
  std::vector<GrpcServerStats::Requests> requests;
  for (std::size_t method = 0; method < kMethods; ++method) {
    for (std::size_t code = 0; code < kCodes; ++code) {
      const std::uint64_t count = ended_[method][code];
      if (count == 0) continue;
      requests.push_back(
          {.method = kNames[method], .code = StatusCodeName(static_cast<StatusCode>(code)), .count = count});
    }
  }
  return requests;
}

}  // namespace skipjack
