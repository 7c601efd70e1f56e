// Which kernels a runner works with: the best ones that pass their self-test on this machine.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_runner.h"
#include "base/status.h"
#include "kernels/cpu/float_kernels.h"
#include "kernels/cpu/linear.h"

namespace skipjack {

// The kernels of one instruction-set level. `linear->bfloat16_products` sets apart two sets of one level.
struct CpuKernelSet {
  const kernels::KernelTable* linear = nullptr;
  const kernels::FloatKernels* floats = nullptr;
};

// What this machine offers, best first.
std::vector<CpuKernelSet> MachineKernels();

struct KernelChoice {
  CpuKernelSet kernels;
  std::vector<std::string> rejected;  // better sets that failed: "avx2: linear Q4_1"
};

// The first set of `offered` that passes its self-test. Only `compute` kBF16 (not kAuto: resolve it before)
// takes one that multiplies bfloat16 pairs. A `wanted` level must be there, and its best set must pass:
// FailedPrecondition.
Result<KernelChoice> ChooseKernels(std::span<const CpuKernelSet> offered, Isa wanted, ComputeType compute);

}  // namespace skipjack
