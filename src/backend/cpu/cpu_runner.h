// The CPU engine: packed weights, a thread team, and the kernels of the best instruction set this machine
// has.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/model_runner.h"
#include "base/status.h"
#include "model/model_source.h"

namespace skipjack {

class MemoryLedger;
struct CpuKernelSet;

enum class ComputeType : std::uint8_t {
  kAuto,  // int8 for quantised files, bf16 for 16-bit and 32-bit ones
  kF32,   // everything in float32 over dequantised weights: the reference path
  kBF16,  // 16-bit weights, float32 accumulation; bfloat16 weights meet bfloat16 activations where the
          // machine multiplies such pairs (AVX-512 BF16)
  kInt8,  // 4/8-bit weights, 8-bit activations, exact integer dot products per block
};

enum class Isa : std::uint8_t { kAuto, kGeneric, kAvx2, kAvx512 };

enum class KvDType : std::uint8_t { kAuto, kF32, kF16, kBF16 };  // auto: f32 with compute f32, else f16

struct CpuRunnerOptions {
  ComputeType compute = ComputeType::kAuto;
  Isa isa = Isa::kAuto;
  KvDType kv_dtype = KvDType::kAuto;
  int threads = 0;  // 0: as many as the cgroup quota and affinity mask allow
  RunnerLimits limits;
  std::string kv_disk_folder = {};            // with limits.disk_blocks: where their file is made
  const std::atomic<bool>* cancel = nullptr;  // once set, CreateCpuRunner ends soon, with CANCELLED
};

// What a runner takes from where it runs.
struct CpuHost {
  // Shared by all runners of a process, so that none is promised what another was; null: this one is alone.
  const MemoryLedger* memory = nullptr;
  // To choose from, best first; null: what this machine offers.
  const std::vector<CpuKernelSet>* kernels = nullptr;
};

// Bytes of one KV block of this model under these options.
KvLayout CpuKvLayout(const ModelConfig& config, const CpuRunnerOptions& options);

// Self-tests the kernels, packs the weights (in parallel), allocates all memory. Kernels that fail their test
// are logged and the next best ones taken. Fails with FailedPrecondition when a forced isa is not there or
// fails its test, and with ResourceExhausted, naming both sizes, when memory does not suffice.
Result<std::unique_ptr<ModelRunner>> CreateCpuRunner(std::shared_ptr<const ModelSource> model,
                                                     const CpuRunnerOptions& options,
                                                     const LoadProgress& progress, const CpuHost& host = {});

// Threads that the cgroup (v1 or v2) quota and the affinity mask leave us; at least 1.
int AvailableThreads();

}  // namespace skipjack
