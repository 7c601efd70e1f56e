// Attention and row-wise kernels of the avx2 level.
#include "kernels/cpu/internal/attention_kernels.inc.h"
#include "kernels/cpu/internal/elementwise_kernels.inc.h"
#include "kernels/cpu/internal/float_tables.h"

namespace skipjack::kernels {

extern const FloatKernels kFloatKernelsAvx2 = {IsaLevel::kAvx2, kAttentionKernels, kElementwiseKernels};

}  // namespace skipjack::kernels
