// The process's limit on open file descriptors (RLIMIT_NOFILE).
#pragma once

#include <cstdint>

#include "base/status.h"

namespace skipjack {

// Beside the connections that are counted: listening sockets, event loops, model files, logs, and the
// connections of gRPC, which are not counted.
inline constexpr std::int64_t kOtherDescriptors = 512;

// Raises the soft limit so that `connections` and kOtherDescriptors fit; it is never lowered. The usual soft
// limit is 1024, and a server that runs out of descriptors accepts nobody any more, health probes included.
// FailedPrecondition, with both numbers, when the hard limit is lower than that. Call it before threads open
// anything.
Status ReserveDescriptors(std::int64_t connections);

}  // namespace skipjack
