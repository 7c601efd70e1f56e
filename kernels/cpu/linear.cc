#include "kernels/cpu/linear.h"

#include "kernels/cpu/internal/tables.h"

namespace skipjack::kernels {

const KernelTable* Select(IsaLevel level) {
  if (!IsSupported(level)) return nullptr;
  switch (level) {
    case IsaLevel::kGeneric:
      return &kGenericKernels;
    case IsaLevel::kAvx2:
      return &kAvx2Kernels;
    case IsaLevel::kAvx512:
      break;
  }
  return nullptr;
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
  if (kind == ActivationKind::kInt8) bytes = blocks * sizeof(ActivationBlock8);
  if (kind == ActivationKind::kInt16) bytes = blocks * sizeof(ActivationBlock16);
  bytes = (bytes + 63) / 64 * 64;
  // Strides that share a large power of two map the rows of a tile to few cache sets.
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

}  // namespace skipjack::kernels
