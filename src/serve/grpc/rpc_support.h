// What every method needs: errors as gRPC knows them, and the request id in the metadata.
#pragma once

#include <grpcpp/grpcpp.h>

#include <optional>
#include <string>

#include "base/status.h"

namespace skipjack {

// Codes are the same; a message too long for HTTP/2 headers is cut.
grpc::Status ToGrpcStatus(const Status& status);

// The answer where too much waits for a worker, and the seconds after which a retry makes sense.
Status TooMuchWaits();
inline constexpr int kOverloadRetrySeconds = 1;

// The metadata `x-request-id` of a call, or an empty string.
std::string RequestIdFrom(const grpc::ServerContextBase& context);
// Sends it back in the initial metadata, unless it could not stand there.
void SendRequestId(const std::string& request_id, grpc::ServerContextBase* context);
void SendRetryAfter(std::optional<int> seconds, grpc::ServerContextBase* context);

}  // namespace skipjack
