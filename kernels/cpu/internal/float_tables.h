// The tables behind SelectFloatKernels(). Only the generic one exists on every architecture.
#pragma once

#include "kernels/cpu/float_kernels.h"

namespace skipjack::kernels {

extern const FloatKernels kFloatKernelsGeneric;
extern const FloatKernels kFloatKernelsAvx2;
extern const FloatKernels kFloatKernelsAvx512;

}  // namespace skipjack::kernels
