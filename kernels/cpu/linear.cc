#include "kernels/cpu/linear.h"

#include "kernels/cpu/internal/tables.h"

namespace skipjack::kernels {

const KernelTable* Select(IsaLevel level) {
  if (!IsSupported(level)) return nullptr;
#if defined(__x86_64__)
  if (level == IsaLevel::kAvx2) return &kAvx2Kernels;
  if (level == IsaLevel::kAvx512) return &kAvx512Kernels;
#endif
  return &kGenericKernels;
}

const KernelTable* SelectWithBFloat16Products(IsaLevel level) {
#if defined(__x86_64__)
  if (level == IsaLevel::kAvx512 && DetectCpuFeatures().avx512_bf16) return &kAvx512BFloat16Kernels;
#endif
  return Select(level);
}

void QuantizeRows(const KernelTable& table, ActivationKind kind, const float* x, std::int64_t rows,
                  std::int64_t columns, std::int64_t stride, std::byte* out, std::size_t out_row_bytes) {
  for (std::int64_t r = 0; r < rows; ++r) {
    table.quantize(kind, x + r * stride, columns, out + static_cast<std::size_t>(r) * out_row_bytes);
  }
}

std::size_t ActivationRowBytes(ActivationKind kind, std::int64_t columns) {
  const std::size_t blocks = static_cast<std::size_t>((columns + kBlockColumns - 1) / kBlockColumns);
  std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(float);
  if (kind == ActivationKind::kBFloat16) bytes = blocks * kBlockColumns * sizeof(std::uint16_t);
  if (kind == ActivationKind::kInt8 || kind == ActivationKind::kInt8Pairs)
    bytes = blocks * sizeof(ActivationBlock);
  bytes = (bytes + 63) / 64 * 64;
  // Strides that share a large power of two map the rows of a tile to few cache sets.
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

}  // namespace skipjack::kernels
