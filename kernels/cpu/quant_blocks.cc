#include "kernels/cpu/quant_blocks.h"

#include <bit>
#include <cstring>

namespace skipjack::kernels {
namespace {

using Bytes = const std::uint8_t*;

std::uint16_t Read16(Bytes p) {
  return static_cast<std::uint16_t>(p[0] | (p[1] << 8));
}

std::uint8_t Code(int value) {
  return static_cast<std::uint8_t>(value);
}

// 16 bytes whose low nibbles are elements 0..15 and high nibbles 16..31.
void SplitNibbles(Bytes packed, std::uint8_t* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = Code(packed[i] & 15);
    out[16 + i] = Code(packed[i] >> 4);
  }
}

void DecodeQ4(Bytes block, bool minimum, DecodedBlock* out) {
  out->scale[0] = Read16(block);
  if (minimum) out->minimum[0] = Read16(block + 2);
  SplitNibbles(block + (minimum ? 4 : 2), out->codes.data());
}

void DecodeQ5(Bytes block, bool minimum, DecodedBlock* out) {
  out->scale[0] = Read16(block);
  if (minimum) out->minimum[0] = Read16(block + 2);
  Bytes high = block + (minimum ? 4 : 2);
  SplitNibbles(high + 4, out->codes.data());
  for (int i = 0; i < 32; ++i) out->codes[i] |= Code(((high[i / 8] >> (i % 8)) & 1) << 4);
}

void DecodeQ8_0(Bytes block, DecodedBlock* out) {
  out->scale[0] = Read16(block);
  for (int i = 0; i < 32; ++i) out->codes[i] = Code(block[2 + i] ^ 0x80);  // + 128
}

// Packed 6-bit scales and minima of Q4_K and Q5_K: 12 bytes for eight groups.
void DecodeSixBitScales(Bytes packed, DecodedBlock* out) {
  for (int g = 0; g < 4; ++g) {
    out->group_scale[g] = static_cast<std::int8_t>(packed[g] & 63);
    out->group_minimum[g] = Code(packed[g + 4] & 63);
    out->group_scale[g + 4] = static_cast<std::int8_t>((packed[g + 8] & 15) | ((packed[g] >> 6) << 4));
    out->group_minimum[g + 4] = Code((packed[g + 8] >> 4) | ((packed[g + 4] >> 6) << 4));
  }
}

// 128 bytes: each 32 hold the low nibbles of one group of 32 and the high nibbles of the next.
void SplitNibblesK(Bytes packed, std::uint8_t* out) {
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      out[64 * pair + i] = Code(packed[32 * pair + i] & 15);
      out[64 * pair + 32 + i] = Code(packed[32 * pair + i] >> 4);
    }
  }
}

void DecodeQ4_K(Bytes block, DecodedBlock* out) {
  out->super_scale = Read16(block);
  out->super_minimum = Read16(block + 2);
  DecodeSixBitScales(block + 4, out);
  SplitNibblesK(block + 16, out->codes.data());
}

void DecodeQ5_K(Bytes block, DecodedBlock* out) {
  out->super_scale = Read16(block);
  out->super_minimum = Read16(block + 2);
  DecodeSixBitScales(block + 4, out);
  Bytes high = block + 16;
  SplitNibblesK(block + 48, out->codes.data());
  for (int group = 0; group < 8; ++group) {
    for (int i = 0; i < 32; ++i) out->codes[32 * group + i] |= Code(((high[i] >> group) & 1) << 4);
  }
}

void DecodeQ6_K(Bytes block, DecodedBlock* out) {
  for (int half = 0; half < 2; ++half) {
    Bytes low = block + 64 * half;
    Bytes high = block + 128 + 32 * half;
    std::uint8_t* codes = out->codes.data() + 128 * half;
    for (int i = 0; i < 32; ++i) {
      codes[i] = Code((low[i] & 15) | ((high[i] & 3) << 4));
      codes[32 + i] = Code((low[32 + i] & 15) | (((high[i] >> 2) & 3) << 4));
      codes[64 + i] = Code((low[i] >> 4) | (((high[i] >> 4) & 3) << 4));
      codes[96 + i] = Code((low[32 + i] >> 4) | ((high[i] >> 6) << 4));
    }
  }
  for (int g = 0; g < 16; ++g) out->group_scale[g] = static_cast<std::int8_t>(block[192 + g]);
  out->super_scale = Read16(block + 208);
}

// 64 bytes of 2-bit codes: each 32 bytes hold four groups of 32, lowest bits first.
void SplitPairs(Bytes packed, std::uint8_t* out) {
  for (int half = 0; half < 2; ++half) {
    for (int j = 0; j < 4; ++j) {
      for (int i = 0; i < 32; ++i)
        out[128 * half + 32 * j + i] = Code((packed[32 * half + i] >> (2 * j)) & 3);
    }
  }
}

void DecodeQ2_K(Bytes block, DecodedBlock* out) {
  for (int g = 0; g < 16; ++g) {
    out->group_scale[g] = static_cast<std::int8_t>(block[g] & 15);
    out->group_minimum[g] = Code(block[g] >> 4);
  }
  SplitPairs(block + 16, out->codes.data());
  out->super_scale = Read16(block + 80);
  out->super_minimum = Read16(block + 82);
}

void DecodeQ3_K(Bytes block, DecodedBlock* out) {
  Bytes mask = block;
  SplitPairs(block + 32, out->codes.data());
  for (int i = 0; i < 256; ++i) out->codes[i] |= Code(((mask[i % 32] >> (i / 32)) & 1) << 2);  // zero is 4
  Bytes packed = block + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = (packed[g % 8] >> (g < 8 ? 0 : 4)) & 15;
    const int high = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
    out->group_scale[g] = static_cast<std::int8_t>((low | (high << 4)) - 32);
  }
  out->super_scale = Read16(block + 108);
}

void LookUp(CodeTable table, int count, DecodedBlock* out) {
  const std::uint8_t* codes = TableCodes(table);
  for (int i = 0; i < count; ++i) out->codes[i] = codes[out->nibbles[i]];
}

void DecodeIQ4_NL(Bytes block, DecodedBlock* out) {
  out->scale[0] = Read16(block);
  SplitNibbles(block + 2, out->nibbles.data());
  LookUp(CodeTable::kIq4, 32, out);
}

void DecodeIQ4_XS(Bytes block, DecodedBlock* out) {
  out->super_scale = Read16(block);
  const unsigned high = Read16(block + 2);
  for (int g = 0; g < 8; ++g) {
    const int low = (block[4 + g / 2] >> (4 * (g % 2))) & 15;
    out->group_scale[g] =
        static_cast<std::int8_t>((low | static_cast<int>(((high >> (2 * g)) & 3) << 4)) - 32);
    SplitNibbles(block + 8 + 16 * g, out->nibbles.data() + 32 * g);
  }
  LookUp(CodeTable::kIq4, 256, out);
}

// The shared exponent e means 2^(e - 127), and codes are doubled: 2^(e - 128) as bfloat16.
void DecodeMXFP4(Bytes block, DecodedBlock* out) {
  const unsigned e = block[0];
  out->scale[0] = static_cast<std::uint16_t>(e < 2 ? 0x20u << e : (e - 1) << 7);
  SplitNibbles(block + 1, out->nibbles.data());
  LookUp(CodeTable::kMxfp4, 32, out);
}

void FillTernaryScale(std::uint16_t bits, DecodedBlock* out) {
  out->super_scale = bits;
  out->group_scale.fill(1);
}

// Base-3 digits: a byte b holds five digits; digit n is the leading one of (b * 3^n mod 256).
void DecodeTernaryDigits(Bytes packed, int bytes, int digits, std::uint8_t* out) {
  unsigned power = 1;
  for (int n = 0; n < digits; ++n) {
    for (int i = 0; i < bytes; ++i)
      out[n * bytes + i] = Code(static_cast<int>((((packed[i] * power) & 255u) * 3u) >> 8));
    power *= 3;
  }
}

void DecodeTQ1_0(Bytes block, DecodedBlock* out) {
  DecodeTernaryDigits(block, 32, 5, out->codes.data());
  DecodeTernaryDigits(block + 32, 16, 5, out->codes.data() + 160);
  DecodeTernaryDigits(block + 48, 4, 4, out->codes.data() + 240);
  FillTernaryScale(Read16(block + 52), out);
}

void DecodeTQ2_0(Bytes block, DecodedBlock* out) {
  SplitPairs(block, out->codes.data());
  FillTernaryScale(Read16(block + 64), out);
}

float GroupScale(const PackedFormat& format, const DecodedBlock& block, int group) {
  switch (format.scale) {
    case ScaleForm::kHalf:
      return HalfBitsToFloat(block.scale[group]);
    case ScaleForm::kBFloat16:
      return BFloat16BitsToFloat(block.scale[group]);
    case ScaleForm::kTwoLevel:
      return HalfBitsToFloat(block.super_scale) * static_cast<float>(block.group_scale[group]);
    case ScaleForm::kNone:
      break;
  }
  return 0.0f;
}

float GroupMinimum(const PackedFormat& format, const DecodedBlock& block, int group) {
  if (format.scale == ScaleForm::kTwoLevel) {
    return -(HalfBitsToFloat(block.super_minimum) * static_cast<float>(block.group_minimum[group]));
  }
  return HalfBitsToFloat(block.minimum[group]);
}

}  // namespace

void DecodeBlock(SourceType type, const std::byte* source, DecodedBlock* out) {
  Bytes block = reinterpret_cast<Bytes>(source);
  switch (type) {
    case SourceType::kQ4_0:
      return DecodeQ4(block, false, out);
    case SourceType::kQ4_1:
      return DecodeQ4(block, true, out);
    case SourceType::kQ5_0:
      return DecodeQ5(block, false, out);
    case SourceType::kQ5_1:
      return DecodeQ5(block, true, out);
    case SourceType::kQ8_0:
      return DecodeQ8_0(block, out);
    case SourceType::kQ2_K:
      return DecodeQ2_K(block, out);
    case SourceType::kQ3_K:
      return DecodeQ3_K(block, out);
    case SourceType::kQ4_K:
      return DecodeQ4_K(block, out);
    case SourceType::kQ5_K:
      return DecodeQ5_K(block, out);
    case SourceType::kQ6_K:
      return DecodeQ6_K(block, out);
    case SourceType::kIQ4_NL:
      return DecodeIQ4_NL(block, out);
    case SourceType::kIQ4_XS:
      return DecodeIQ4_XS(block, out);
    case SourceType::kMXFP4:
      return DecodeMXFP4(block, out);
    case SourceType::kTQ1_0:
      return DecodeTQ1_0(block, out);
    case SourceType::kTQ2_0:
      return DecodeTQ2_0(block, out);
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBF16:
      return;  // plain types have no blocks
  }
}

void DequantizeBlock(SourceType type, const std::byte* source, float* out) {
  Bytes bytes = reinterpret_cast<Bytes>(source);
  switch (type) {
    case SourceType::kF32:
      std::memcpy(out, source, sizeof(float));
      return;
    case SourceType::kF16:
      *out = HalfBitsToFloat(Read16(bytes));
      return;
    case SourceType::kBF16:
      *out = BFloat16BitsToFloat(Read16(bytes));
      return;
    default:
      break;
  }
  DecodedBlock block;
  DecodeBlock(type, source, &block);
  const PackedFormat format = *FormatFor(type, Precision::kInt8);
  const int elements = SourceBlockElements(type);
  for (int group = 0; group * format.group < elements; ++group) {
    const float scale = GroupScale(format, block, group);
    const float minimum = format.stored_minimum ? GroupMinimum(format, block, group) : 0.0f;
    for (int i = group * format.group; i < (group + 1) * format.group; ++i) {
      const float product = scale * static_cast<float>(block.codes[i] - format.zero);
      out[i] = format.stored_minimum ? product + minimum : product;
    }
  }
}

float HalfBitsToFloat(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude >= 0x400u) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

std::uint16_t FloatToHalfBits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 leaves the value, rounded to multiples of 2^-24, in the mantissa's low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

float BFloat16BitsToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t FloatToBFloat16Bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace skipjack::kernels
