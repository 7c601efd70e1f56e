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
    if (kind == ActivationKind::kInt8) return Blocks<false>(x, columns, static_cast<ActivationBlock*>(out));
    if (kind == ActivationKind::kInt8Pairs)
      return Blocks<true>(x, columns, static_cast<ActivationBlock*>(out));
    if (kind == ActivationKind::kBFloat16) return BFloat16s(x, columns, static_cast<std::uint16_t*>(out));
    std::memcpy(out, x, static_cast<std::size_t>(columns) * sizeof(float));
  }

 private:
  using Floats = typename S::Floats;

  static void BFloat16s(const float* x, std::int64_t columns, std::uint16_t* out) {
    for (std::int64_t k = 0; k < columns; ++k) {
      std::uint32_t bits;
      std::memcpy(&bits, x + k, sizeof(bits));
      const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
      const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
      out[k] = static_cast<std::uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
    }
    if (columns % 2 != 0) out[columns] = 0;
  }

  template <bool kPairs>
  static void Blocks(const float* x, std::int64_t columns, ActivationBlock* out) {
    for (; columns >= kBlockColumns; columns -= kBlockColumns, x += kBlockColumns) OneBlock<kPairs>(x, out++);
    if (columns > 0) {
      alignas(64) float rest[kBlockColumns] = {};
      std::memcpy(rest, x, static_cast<std::size_t>(columns) * sizeof(float));
      OneBlock<kPairs>(rest, out);
    }
  }

  // The codes are round(x / scale). kInt8: scale = max |x| / 127. Pairs: scale = max (|x[2i]| + |x[2i + 1]|)
  // / 127; rounding adds at most 1/2 to each, so neighbours stay within 128 together. A maximum too small for
  // a normal scale counts as zero. Anything non-finite makes the scale NaN, and with it every product with
  // this row.
  template <bool kPairs>
  static void OneBlock(const float* x, ActivationBlock* out) {
    constexpr float kSmallestNormal = 1.17549435e-38f;
    const Floats low = S::Load(x);
    const Floats high = S::Load(x + 16);
    const Floats zero = S::Set1(0.0f);
    const float poison = S::ReduceAdd(S::Add(S::Mul(low, zero), S::Mul(high, zero)));  // 0, or NaN
    const Floats low_size = kPairs ? S::PairSums(S::Abs(low)) : S::Abs(low);
    const Floats high_size = kPairs ? S::PairSums(S::Abs(high)) : S::Abs(high);
    const float scale = S::ReduceMax(S::Max(low_size, high_size)) / 127.0f;
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
