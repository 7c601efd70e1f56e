// Quantisation of activations, written once over the operations of an instruction-set level S. The rules of
// linear_kernels.inc.h about names apply.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/quantize.h"

namespace skipjack::kernels {

template <class S>
class QuantizeKernels {
 public:
  static void Quantize(ActivationKind kind, const float* x, std::int64_t columns, void* out) {
    if (kind == ActivationKind::kInt8) return Blocks(x, columns, static_cast<ActivationBlock8*>(out));
    if (kind == ActivationKind::kInt16) return Blocks(x, columns, static_cast<ActivationBlock16*>(out));
    std::memcpy(out, x, static_cast<std::size_t>(columns) * sizeof(float));
  }

 private:
  using Floats = typename S::Floats;

  template <class Block>
  static void Blocks(const float* x, std::int64_t columns, Block* out) {
    for (; columns >= kBlockColumns; columns -= kBlockColumns, x += kBlockColumns) OneBlock(x, out++);
    if (columns > 0) {
      alignas(64) float rest[kBlockColumns] = {};
      std::memcpy(rest, x, static_cast<std::size_t>(columns) * sizeof(float));
      OneBlock(rest, out);
    }
  }

  // The codes are round(x / scale), scale = max |x| / largest code; a maximum too small for a normal scale
  // counts as zero. Anything non-finite makes the scale NaN, and with it every product with this row.
  template <class Block>
  static void OneBlock(const float* x, Block* out) {
    constexpr float kLargest = sizeof(out->codes[0]) == 1 ? 127.0f : 32767.0f;
    constexpr float kSmallestNormal = 1.17549435e-38f;
    const Floats low = S::Load(x);
    const Floats high = S::Load(x + 16);
    const Floats zero = S::Set1(0.0f);
    const float poison = S::ReduceAdd(S::Add(S::Mul(low, zero), S::Mul(high, zero)));  // 0, or NaN
    float scale = S::ReduceMax(S::Max(S::Abs(low), S::Abs(high))) / kLargest;
    if (!(poison == 0.0f) || !(scale >= kSmallestNormal)) {
      std::memset(out->codes, 0, sizeof(out->codes));
      out->scale = out->sum = out->half_sum[0] = out->half_sum[1] = poison;
      return;
    }
    const Floats inverse = S::Set1(1.0f / scale);
    const std::int32_t low_sum = S::StoreCodes(S::Mul(low, inverse), out->codes);
    const std::int32_t high_sum = S::StoreCodes(S::Mul(high, inverse), out->codes + 16);
    out->scale = scale;
    out->sum = scale * static_cast<float>(low_sum + high_sum);
    out->half_sum[0] = scale * static_cast<float>(low_sum);
    out->half_sum[1] = scale * static_cast<float>(high_sum);
  }
};

}  // namespace skipjack::kernels
