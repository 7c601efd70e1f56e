// The tables of the AVX-512 kernels over SIMDe; they need AVX2 at run time.
#pragma once

#include "kernels/cpu/linear.h"

namespace skipjack::kernels {

extern const KernelTable kAvx512SimdeKernels;
extern const KernelTable kAvx512BFloat16SimdeKernels;

}  // namespace skipjack::kernels
