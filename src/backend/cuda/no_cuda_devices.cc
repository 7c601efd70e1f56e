// Stands in where the CUDA toolkit was not there to build with.
#include "backend/cuda/cuda_devices.h"

namespace skipjack {

Result<std::vector<CudaDevice>> ListCudaDevices() {
  return Status::FailedPrecondition(
      "this build has no CUDA: the toolkit was not found when it was configured");
}

}  // namespace skipjack
