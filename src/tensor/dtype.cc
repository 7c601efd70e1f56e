#include "tensor/dtype.h"

#include <array>
#include <bit>
#include <cstdlib>
#include <string>

namespace skipjack {
namespace {

struct TypeEntry {
  DType type;
  DTypeInfo info;
};

// Block sizes as ggml's block structs have them: scales and minima included, no padding.
constexpr std::array<TypeEntry, 33> kTypes{{
    {DType::kF32, {"F32", 1, 4, true}},
    {DType::kF16, {"F16", 1, 2, true}},
    {DType::kQ4_0, {"Q4_0", 32, 18, true}},
    {DType::kQ4_1, {"Q4_1", 32, 20, true}},
    {DType::kQ5_0, {"Q5_0", 32, 22, true}},
    {DType::kQ5_1, {"Q5_1", 32, 24, true}},
    {DType::kQ8_0, {"Q8_0", 32, 34, true}},
    {DType::kQ8_1, {"Q8_1", 32, 36, false}},
    {DType::kQ2_K, {"Q2_K", 256, 84, true}},
    {DType::kQ3_K, {"Q3_K", 256, 110, true}},
    {DType::kQ4_K, {"Q4_K", 256, 144, true}},
    {DType::kQ5_K, {"Q5_K", 256, 176, true}},
    {DType::kQ6_K, {"Q6_K", 256, 210, true}},
    {DType::kQ8_K, {"Q8_K", 256, 292, false}},
    {DType::kIQ2_XXS, {"IQ2_XXS", 256, 66, false}},
    {DType::kIQ2_XS, {"IQ2_XS", 256, 74, false}},
    {DType::kIQ3_XXS, {"IQ3_XXS", 256, 98, false}},
    {DType::kIQ1_S, {"IQ1_S", 256, 50, false}},
    {DType::kIQ4_NL, {"IQ4_NL", 32, 18, true}},
    {DType::kIQ3_S, {"IQ3_S", 256, 110, false}},
    {DType::kIQ2_S, {"IQ2_S", 256, 82, false}},
    {DType::kIQ4_XS, {"IQ4_XS", 256, 136, true}},
    {DType::kI8, {"I8", 1, 1, false}},
    {DType::kI16, {"I16", 1, 2, false}},
    {DType::kI32, {"I32", 1, 4, false}},
    {DType::kI64, {"I64", 1, 8, false}},
    {DType::kF64, {"F64", 1, 8, false}},
    {DType::kIQ1_M, {"IQ1_M", 256, 56, false}},
    {DType::kBF16, {"BF16", 1, 2, true}},
    {DType::kTQ1_0, {"TQ1_0", 256, 54, true}},
    {DType::kTQ2_0, {"TQ2_0", 256, 66, true}},
    {DType::kMXFP4, {"MXFP4", 32, 17, true}},
    {DType::kNVFP4, {"NVFP4", 64, 36, false}},
}};

constexpr std::uint32_t kTypeLimit = 41;

// Position in kTypes for each GGUF number, -1 where none is known.
constexpr std::array<std::int8_t, kTypeLimit> BuildIndex() {
  std::array<std::int8_t, kTypeLimit> index{};
  index.fill(-1);
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    index[static_cast<std::uint32_t>(kTypes[i].type)] = static_cast<std::int8_t>(i);
  }
  return index;
}

constexpr std::array<std::int8_t, kTypeLimit> kIndex = BuildIndex();

}  // namespace

std::optional<DType> DTypeFromGguf(std::uint32_t value) {
  if (value >= kTypeLimit || kIndex[value] < 0) return std::nullopt;
  return static_cast<DType>(value);
}

const DTypeInfo& Info(DType type) {
  const auto value = static_cast<std::uint32_t>(type);
  if (value >= kTypeLimit || kIndex[value] < 0) std::abort();  // no enumerator has this value
  return kTypes[static_cast<std::size_t>(kIndex[value])].info;
}

Result<std::int64_t> RowBytes(DType type, std::int64_t elements) {
  const DTypeInfo& info = Info(type);
  if (elements < 0 || elements % info.block_elements != 0) {
    return Status::InvalidArgument(std::to_string(elements) + " numbers are no whole number of " +
                                   std::string(info.name) + " blocks of " +
                                   std::to_string(info.block_elements));
  }
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes)) {
    return Status::InvalidArgument("the size of " + std::to_string(elements) + " numbers of type " +
                                   std::string(info.name) + " overflows");
  }
  return bytes;
}

float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    // Subnormal: mantissa * 2^-24, which float holds exactly as a normal number.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

std::uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: kept quiet, with the payload bits that fit
    return static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu));
  }
  if (magnitude >= 0x477ff000u)
    return static_cast<std::uint16_t>(sign | 0x7c00u);  // >= 65520 rounds to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14, the result is subnormal: adding 0.5 makes the float unit round at bit 2^-24, to nearest
    // even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  const std::uint32_t rounded = magnitude + 0xfffu + odd;  // may carry into the exponent, which is right
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)));
}

float BFloat16ToFloat(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

std::uint16_t FloatToBFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  const std::uint32_t odd = (bits >> 16) & 1u;
  return static_cast<std::uint16_t>((bits + 0x7fffu + odd) >> 16);
}

}  // namespace skipjack
