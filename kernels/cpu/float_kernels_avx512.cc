// Attention and row-wise kernels of the avx512 level.
#include "kernels/cpu/internal/attention_kernels.inc.h"
#include "kernels/cpu/internal/elementwise_kernels.inc.h"
#include "kernels/cpu/internal/float_tables.h"

namespace skipjack::kernels {

extern const FloatKernels kFloatKernelsAvx512 = {IsaLevel::kAvx512, kAttentionKernels, kElementwiseKernels};

}  // namespace skipjack::kernels
