// AVX-512 F, BW, DQ, VL and VNNI.
#include "kernels/cpu/internal/linear_kernels.inc.h"
#include "kernels/cpu/internal/products_avx512.h"
#include "kernels/cpu/internal/quantize_kernels.inc.h"
#include "kernels/cpu/internal/simd_avx512.h"
#include "kernels/cpu/internal/tables.h"

namespace skipjack::kernels {

extern const KernelTable kAvx512Kernels{
    .level = IsaLevel::kAvx512,
    .name = "avx512",
    .wide_codes_need_pairs = avx512::Simd::kWideCodesNeedPairs,
    .linear = &LinearKernels<avx512::Simd>::Linear,
    .quantize = &QuantizeKernels<avx512::Simd>::Quantize,
};

}  // namespace skipjack::kernels
