// AVX2 + FMA + F16C.
#include "kernels/cpu/internal/linear_kernels.inc.h"
#include "kernels/cpu/internal/products_avx2.h"
#include "kernels/cpu/internal/quantize_kernels.inc.h"
#include "kernels/cpu/internal/simd_avx2.h"
#include "kernels/cpu/internal/tables.h"

namespace skipjack::kernels {

extern const KernelTable kAvx2Kernels{
    .level = IsaLevel::kAvx2,
    .name = "avx2",
    .wide_codes_need_pairs = avx2::Simd::kWideCodesNeedPairs,
    .linear = &LinearKernels<avx2::Simd>::Linear,
    .quantize = &QuantizeKernels<avx2::Simd>::Quantize,
};

}  // namespace skipjack::kernels
