#include "tests/unit/backend/emulated_kernels.h"

#include <atomic>
#include <cstring>

#include "kernels/cpu/quant_blocks.h"

namespace skipjack {
namespace {

using kernels::ActivationKind;
using kernels::Activations;
using kernels::IsaLevel;
using kernels::KernelTable;
using kernels::LinearArgs;

std::atomic<long> products{0};

// The activations are widened, which is exact; the generic kernel multiplies floats with bfloat16 weights.
void Linear(const LinearArgs& args) {
  const KernelTable& generic = *kernels::Select(IsaLevel::kGeneric);
  if (args.activations.kind != ActivationKind::kBFloat16) return generic.linear(args);
  products.fetch_add(1, std::memory_order_relaxed);
  const auto columns = static_cast<std::size_t>(args.weights->columns);
  std::vector<float> wide(static_cast<std::size_t>(args.rows) * columns);
  for (std::size_t row = 0; row < static_cast<std::size_t>(args.rows); ++row) {
    const std::byte* source = args.activations.data + row * args.activations.row_bytes;
    for (std::size_t k = 0; k < columns; ++k) {
      std::uint16_t bits;
      std::memcpy(&bits, source + k * sizeof(bits), sizeof(bits));
      wide[row * columns + k] = kernels::BFloat16BitsToFloat(bits);
    }
  }
  LinearArgs widened = args;
  widened.activations = {ActivationKind::kFloat32, reinterpret_cast<const std::byte*>(wide.data()),
                         columns * sizeof(float)};
  generic.linear(widened);
}

}  // namespace

const std::vector<CpuKernelSet>& KernelsWithEmulatedBFloat16() {
  static const KernelTable table = [] {
    KernelTable emulated = *kernels::Select(IsaLevel::kGeneric);
    emulated.name = "generic+bf16";
    emulated.bfloat16_products = true;
    emulated.linear = &Linear;
    return emulated;
  }();
  static const std::vector<CpuKernelSet> sets = {
      {&table, kernels::SelectFloatKernels(IsaLevel::kGeneric)},
      {kernels::Select(IsaLevel::kGeneric), kernels::SelectFloatKernels(IsaLevel::kGeneric)}};
  return sets;
}

long EmulatedBFloat16Products() {
  return products.load(std::memory_order_relaxed);
}

}  // namespace skipjack
