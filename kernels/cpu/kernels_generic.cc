// The baseline level: compiled with the build's own flags.
#include "kernels/cpu/internal/linear_kernels.inc.h"
#include "kernels/cpu/internal/quantize_kernels.inc.h"
#include "kernels/cpu/internal/simd_generic.h"
#include "kernels/cpu/internal/tables.h"

namespace skipjack::kernels {

extern const KernelTable kGenericKernels{
    .level = IsaLevel::kGeneric,
    .name = "generic",
    .wide_codes_need_pairs = generic::Simd::kWideCodesNeedPairs,
    .linear = &LinearKernels<generic::Simd>::Linear,
    .quantize = &QuantizeKernels<generic::Simd>::Quantize,
};

}  // namespace skipjack::kernels
