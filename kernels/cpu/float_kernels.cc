#include "kernels/cpu/float_kernels.h"

#include "kernels/cpu/internal/float_tables.h"

namespace skipjack::kernels {

const FloatKernels* SelectFloatKernels(IsaLevel level) {
  if (!IsSupported(level)) return nullptr;
#if defined(__x86_64__)
  if (level == IsaLevel::kAvx2) return &kFloatKernelsAvx2;
  if (level == IsaLevel::kAvx512) return &kFloatKernelsAvx512;
#endif
  return &kFloatKernelsGeneric;
}

}  // namespace skipjack::kernels
