#include "backend/cuda/cuda_devices.h"

#include <cuda_runtime_api.h>

namespace skipjack {

Result<std::vector<CudaDevice>> ListCudaDevices() {
  int count = 0;
  // Without a driver the call fails and leaves `count` as it was.
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return Status::FailedPrecondition(std::string("no CUDA device can be used: ") +
                                      cudaGetErrorString(error));
  }
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (const cudaError_t error = cudaGetDeviceProperties(&properties, i); error != cudaSuccess) {
      return Status::FailedPrecondition("CUDA device " + std::to_string(i) +
                                        " cannot be asked: " + cudaGetErrorString(error));
    }
    devices.push_back({properties.name, properties.major, properties.minor,
                       static_cast<std::int64_t>(properties.totalGlobalMem)});
  }
  return devices;
}

}  // namespace skipjack
