// Attention and row-wise kernels of the generic level.
#include "kernels/cpu/internal/attention_kernels.inc.h"
#include "kernels/cpu/internal/elementwise_kernels.inc.h"
#include "kernels/cpu/internal/float_tables.h"

namespace skipjack::kernels {

extern const FloatKernels kFloatKernelsGeneric = {IsaLevel::kGeneric, kAttentionKernels, kElementwiseKernels};

}  // namespace skipjack::kernels
