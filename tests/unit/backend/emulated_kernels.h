// The generic kernels with bfloat16 products as AVX-512 BF16 machines have them, so that what depends on such
// a table can be tested anywhere.
#pragma once

#include <vector>

#include "backend/cpu/cpu_kernels.h"

namespace skipjack {

// Best first: with bfloat16 products ("generic+bf16"), then without.
const std::vector<CpuKernelSet>& KernelsWithEmulatedBFloat16();

// How many products of bfloat16 pairs there were so far.
long EmulatedBFloat16Products();

}  // namespace skipjack
