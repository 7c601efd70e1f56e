// The AVX-512 kernels compiled over SIMDe, which computes the intrinsics with AVX2: the same source, runnable
// on any AVX2 machine.
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/avx512/dpbf16.h>
#include <simde/x86/avx512/dpbusd.h>
#include <simde/x86/f16c.h>

namespace skipjack::kernels::avx512_simde {

// Missing in SIMDe 0.7.4.
static inline __m512 ConvertInts(__m512i v) {
  const __m256 low = _mm256_cvtepi32_ps(_mm512_castsi512_si256(v));
  const __m256 high = _mm256_cvtepi32_ps(_mm512_extracti64x4_epi64(v, 1));
  const __m512i joined =
      _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_castps_si256(low)), _mm256_castps_si256(high), 1);
  return _mm512_castsi512_ps(joined);
}

}  // namespace skipjack::kernels::avx512_simde

#define _mm512_cvtepi32_ps(v) ConvertInts(v)
#define SKIPJACK_AVX512_NAMESPACE avx512_simde

#include "kernels/cpu/internal/bfloat16_avx512.h"
#include "kernels/cpu/internal/linear_kernels.inc.h"
#include "kernels/cpu/internal/quantize_kernels.inc.h"
#include "tests/unit/kernels/kernels_avx512_simde.h"

namespace skipjack::kernels {

const KernelTable kAvx512SimdeKernels{
    .level = IsaLevel::kAvx512,
    .name = "avx512_simde",
    .wide_codes_need_pairs = avx512_simde::Simd::kWideCodesNeedPairs,
    .linear = &LinearKernels<avx512_simde::Simd>::Linear,
    .quantize = &QuantizeKernels<avx512_simde::Simd>::Quantize,
};

const KernelTable kAvx512BFloat16SimdeKernels{
    .level = IsaLevel::kAvx512,
    .name = "avx512_bf16_simde",
    .wide_codes_need_pairs = avx512_simde::Simd::kWideCodesNeedPairs,
    .bfloat16_products = true,
    .linear = &LinearKernels<avx512_simde::BFloat16Simd>::Linear,
    .quantize = &QuantizeKernels<avx512_simde::BFloat16Simd>::Quantize,
};

}  // namespace skipjack::kernels
