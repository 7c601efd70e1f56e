#include "serve/grpc/rpc_support.h"

#include <algorithm>

#include "serve/request_validation.h"
#include "text/utf8.h"

namespace skipjack {
namespace {

constexpr char kRequestId[] = "x-request-id";
constexpr char kRetryAfter[] = "retry-after";
// Peers refuse more than 8 KiB of metadata, and three bytes may be needed for one.
constexpr std::size_t kMaxMessageBytes = 2048;

}  // namespace

grpc::Status ToGrpcStatus(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string message = status.message();
  if (message.size() > kMaxMessageBytes) {
    message.resize(kMaxMessageBytes);
    message.resize(std::min(message.size(), FindInvalidUtf8(message)));  // not within a character
    message += " ...";
  }
  return {static_cast<grpc::StatusCode>(status.code()), message};
}

Status TooMuchWaits() {
  return Status::ResourceExhausted("the server is overloaded: too much work waits for tokenising");
}

std::string RequestIdFrom(const grpc::ServerContextBase& context) {
  const auto it = context.client_metadata().find(kRequestId);
  return it == context.client_metadata().end() ? "" : std::string(it->second.data(), it->second.size());
}

void SendRequestId(const std::string& request_id, grpc::ServerContextBase* context) {
  if (!request_id.empty() && CheckRequestId(request_id).ok()) {
    context->AddInitialMetadata(kRequestId, request_id);
  }
}

void SendRetryAfter(std::optional<int> seconds, grpc::ServerContextBase* context) {
  if (seconds) context->AddTrailingMetadata(kRetryAfter, std::to_string(*seconds));
}

}  // namespace skipjack
