// Attention and the row-wise kernels of an instruction-set level, chosen at run time like the matrix
// products.
#pragma once

#include <string>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa.h"

namespace skipjack::kernels {

struct FloatKernels {
  IsaLevel level = IsaLevel::kGeneric;
  AttentionKernels attention;
  ElementwiseKernels elementwise;
};

// nullptr when IsSupported(level) is false.
const FloatKernels* SelectFloatKernels(IsaLevel level);

// Runs every kernel of the table against the generic ones on small random data (less than a millisecond).
// Empty when all agree; else what does not, separated by ", ".
std::string FloatSelfTest(const FloatKernels& tested);

}  // namespace skipjack::kernels
