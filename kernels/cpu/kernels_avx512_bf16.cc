// AVX-512 F, BW, DQ, VL, VNNI and BF16.
#include <immintrin.h>

#define SKIPJACK_AVX512_NAMESPACE avx512_bf16

#include "kernels/cpu/internal/bfloat16_avx512.h"
#include "kernels/cpu/internal/linear_kernels.inc.h"
#include "kernels/cpu/internal/quantize_kernels.inc.h"
#include "kernels/cpu/internal/tables.h"

namespace skipjack::kernels {

extern const KernelTable kAvx512BFloat16Kernels{
    .level = IsaLevel::kAvx512,
    .name = "avx512+bf16",
    .wide_codes_need_pairs = avx512_bf16::Simd::kWideCodesNeedPairs,
    .bfloat16_products = true,
    .linear = &LinearKernels<avx512_bf16::BFloat16Simd>::Linear,
    .quantize = &QuantizeKernels<avx512_bf16::BFloat16Simd>::Quantize,
};

}  // namespace skipjack::kernels
