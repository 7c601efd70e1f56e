// The tables that the object file of each level defines.
#pragma once

#include "kernels/cpu/linear.h"

namespace skipjack::kernels {

extern const KernelTable kGenericKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;
extern const KernelTable kAvx512Kernels;
extern const KernelTable kAvx512BFloat16Kernels;
#endif

}  // namespace skipjack::kernels
