// The CUDA devices of this machine, as far as this build and its driver can see them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace skipjack {

struct CudaDevice {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  std::int64_t memory_bytes = 0;
};

// FailedPrecondition says why there are none to ask: a build without CUDA, no driver, a driver that is too old.
Result<std::vector<CudaDevice>> ListCudaDevices();

}  // namespace skipjack
