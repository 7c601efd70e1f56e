#include "base/descriptor_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace skipjack {

Status ReserveDescriptors(std::int64_t connections) {
  const auto needed = static_cast<rlim_t>(connections + kOtherDescriptors);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return Status::Internal(std::string("cannot read the limit of open files: ") + std::strerror(errno));
  }
  // RLIM_INFINITY is the largest number there is.
  if (limit.rlim_cur >= needed) return {};
  if (limit.rlim_max < needed) {
    return Status::FailedPrecondition(
        std::to_string(connections) + " connections and " + std::to_string(kOtherDescriptors) +
        " other descriptors need " + std::to_string(needed) + " open files, but the hard limit is " +
        std::to_string(limit.rlim_max) +
        ": lower server.limits.max_connections or raise the limit (ulimit -Hn)");
  }
  limit.rlim_cur = needed;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) return {};
  return Status::Internal("cannot raise the limit of open files to " + std::to_string(needed) + ": " +
                          std::strerror(errno));
}

}  // namespace skipjack
