#include <fmt/core.h>

#include "backend/cpu/cpu_runner.h"
#include "backend/cuda/cuda_devices.h"
#include "cli/command.h"
#include "kernels/cpu/isa.h"

namespace skipjack::cli {
namespace {

int Devices() {
  fmt::print("cpu: {}, {} threads allowed\n", kernels::IsaName(kernels::BestIsaLevel()), AvailableThreads());
  const Result<std::vector<CudaDevice>> devices = ListCudaDevices();
  if (!devices.ok()) {
    fmt::print("cuda: {}\n", devices.status().message());
    return 0;
  }
  for (const CudaDevice& device : *devices) {
    fmt::print("cuda: {}, compute capability {}.{}, {:.1f} GiB\n", device.name, device.major, device.minor,
               static_cast<double>(device.memory_bytes) / (1 << 30));
  }
  return 0;
}

}  // namespace

void AddDevicesCommand(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand("devices", "Print what this machine can compute on");
  command->callback([run] { *run = Devices; });
}

}  // namespace skipjack::cli
