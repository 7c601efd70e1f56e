// Decoding of ggml's block formats. Layouts are those of ggml-common.h; every function decodes one block,
// reads its bytes at any alignment and multiplies in ggml's order, so that the values are the reference's
// own.
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "tensor/dtype.h"

static_assert(std::endian::native == std::endian::little, "GGUF data is read in place as little-endian");

namespace skipjack {
namespace {

using Byte = std::uint8_t;

std::uint16_t LoadU16(const Byte* p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

std::uint32_t LoadU32(const Byte* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

float LoadHalf(const Byte* p) {
  return HalfToFloat(LoadU16(p));
}

int Signed(Byte value) {
  return static_cast<std::int8_t>(value);
}

// {d: half, nibbles[16]}: value = d * (q - 8). Low nibbles are elements 0..15, high ones 16..31.
void BlockQ4_0(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  const Byte* q = block + 2;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>((q[i] & 15) - 8) * d;
    out[i + 16] = static_cast<float>((q[i] >> 4) - 8) * d;
  }
}

// {d, m: half, nibbles[16]}: value = d * q + m.
void BlockQ4_1(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  const Byte* q = block + 4;
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<float>(q[i] & 15) * d + m;
    out[i + 16] = static_cast<float>(q[i] >> 4) * d + m;
  }
}

// Element i of a 5-bit block: nibble plus bit i of `high` as bit 4.
int FiveBits(const Byte* nibbles, std::uint32_t high, int i) {
  const int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
  return low | static_cast<int>(((high >> i) & 1u) << 4);
}

// {d: half, high bits: u32, nibbles[16]}: value = d * (q - 16).
void BlockQ5_0(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  const std::uint32_t high = LoadU32(block + 2);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(FiveBits(block + 6, high, i) - 16) * d;
}

// {d, m: half, high bits: u32, nibbles[16]}: value = d * q + m.
void BlockQ5_1(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  const float m = LoadHalf(block + 2);
  const std::uint32_t high = LoadU32(block + 4);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(FiveBits(block + 8, high, i)) * d + m;
}

// {d: half, q: i8[32]}.
void BlockQ8_0(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<float>(Signed(block[2 + i])) * d;
}

// {scales: u8[16] (scale low nibble, min high), q: 2 bits x 256, d, dmin: half}; 16 groups of 16.
void BlockQ2_K(const Byte* block, float* out) {
  const Byte* scales = block;
  const float d = LoadHalf(block + 80);
  const float dmin = LoadHalf(block + 82);
  for (int group = 0; group < 16; ++group) {
    const Byte* q = block + 16 + (group / 8) * 32 + (group % 2) * 16;
    const int shift = ((group / 2) % 4) * 2;
    const float scale = d * static_cast<float>(scales[group] & 15);
    const float minimum = dmin * static_cast<float>(scales[group] >> 4);
    for (int i = 0; i < 16; ++i)
      out[group * 16 + i] = scale * static_cast<float>((q[i] >> shift) & 3) - minimum;
  }
}

// {high bits: u8[32], q: 2 bits x 256, scales: 6 bits x 16, d: half}; a clear high bit subtracts 4.
void BlockQ3_K(const Byte* block, float* out) {
  const Byte* packed = block + 96;
  const float d = LoadHalf(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = group < 8 ? packed[group] & 15 : packed[group - 8] >> 4;
    const int high = (packed[8 + group % 4] >> (2 * (group / 4))) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    const Byte* q = block + 32 + (group / 8) * 32 + (group % 2) * 16;
    const Byte* high_bits = block + (group % 2) * 16;
    const int shift = ((group / 2) % 4) * 2;
    const int mask = 1 << (group / 2);
    for (int i = 0; i < 16; ++i) {
      const int value = ((q[i] >> shift) & 3) - ((high_bits[i] & mask) != 0 ? 0 : 4);
      out[group * 16 + i] = scale * static_cast<float>(value);
    }
  }
}

struct ScaleMin {
  float scale;
  float minimum;
};

// The 6-bit scales and minima of Q4_K and Q5_K: 8 pairs in 12 bytes.
ScaleMin UnpackScaleMin(const Byte* packed, int group) {
  if (group < 4) {
    return {static_cast<float>(packed[group] & 63), static_cast<float>(packed[group + 4] & 63)};
  }
  const int scale = (packed[group + 4] & 15) | ((packed[group - 4] >> 6) << 4);
  const int minimum = (packed[group + 4] >> 4) | ((packed[group] >> 6) << 4);
  return {static_cast<float>(scale), static_cast<float>(minimum)};
}

// {d, dmin: half, scales: u8[12], nibbles[128]}; 8 groups of 32, two of them share 32 bytes.
void BlockQ4_K(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin pair = UnpackScaleMin(block + 4, group);
    const float scale = d * pair.scale;
    const float minimum = dmin * pair.minimum;
    const Byte* q = block + 16 + (group / 2) * 32;
    const int shift = (group % 2) * 4;
    for (int i = 0; i < 32; ++i)
      out[group * 32 + i] = scale * static_cast<float>((q[i] >> shift) & 15) - minimum;
  }
}

// As Q4_K with a fifth bit: byte i of u8[32] holds bit `group` of element i of every group.
void BlockQ5_K(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  const Byte* high = block + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin pair = UnpackScaleMin(block + 4, group);
    const float scale = d * pair.scale;
    const float minimum = dmin * pair.minimum;
    const Byte* q = block + 48 + (group / 2) * 32;
    const int shift = (group % 2) * 4;
    for (int i = 0; i < 32; ++i) {
      const int value = ((q[i] >> shift) & 15) | (((high[i] >> group) & 1) << 4);
      out[group * 32 + i] = scale * static_cast<float>(value) - minimum;
    }
  }
}

// {low nibbles[128], high 2 bits[64], scales: i8[16], d: half}; value = d * scale * (q - 32). Each half of
// 128 elements is four runs of 32 over the same 64 + 32 bytes.
void BlockQ6_K(const Byte* block, float* out) {
  const float d = LoadHalf(block + 208);
  for (int run = 0; run < 8; ++run) {
    const int half = run / 4;
    const int part = run % 4;
    const Byte* low = block + half * 64 + (part % 2) * 32;
    const Byte* high = block + 128 + half * 32;
    const Byte* scales = block + 192 + half * 8 + part * 2;
    const int low_shift = (part / 2) * 4;
    for (int i = 0; i < 32; ++i) {
      const int value = (((low[i] >> low_shift) & 15) | (((high[i] >> (2 * part)) & 3) << 4)) - 32;
      out[run * 32 + i] = d * static_cast<float>(Signed(scales[i / 16])) * static_cast<float>(value);
    }
  }
}

constexpr std::array<float, 16> kIq4Values{-127, -104, -83, -65, -49, -35, -22, -10,
                                           1,    13,   25,  38,  53,  69,  89,  113};

// {d: half, nibbles[16]}: value = d * table[q].
void BlockIQ4_NL(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * kIq4Values[block[2 + i] & 15];
    out[i + 16] = d * kIq4Values[block[2 + i] >> 4];
  }
}

// {d: half, scale bits 4..5: u16, scale bits 0..3: u8[4], nibbles[128]}; 8 groups of 32 laid out as in
// IQ4_NL.
void BlockIQ4_XS(const Byte* block, float* out) {
  const float d = LoadHalf(block);
  const int scales_high = LoadU16(block + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = (block[4 + group / 2] >> (4 * (group % 2))) & 15;
    const int high = (scales_high >> (2 * group)) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    const Byte* q = block + 8 + group * 16;
    float* group_out = out + group * 32;
    for (int i = 0; i < 16; ++i) {
      group_out[i] = scale * kIq4Values[q[i] & 15];
      group_out[i + 16] = scale * kIq4Values[q[i] >> 4];
    }
  }
}

// Element `digit` of a byte that holds five base-3 digits as a fixed-point fraction of 256.
float TernaryDigit(Byte packed, int digit, float d) {
  constexpr std::array<int, 5> kPowers{1, 3, 9, 27, 81};
  const int fraction = (packed * kPowers[static_cast<std::size_t>(digit)]) & 255;
  return static_cast<float>(((fraction * 3) >> 8) - 1) * d;
}

// {q: u8[48], q tail: u8[4], d: half}: values -d, 0, d; 5 digits a byte (4 in the tail), digit-major in runs
// of 32, 16, 4.
void BlockTQ1_0(const Byte* block, float* out) {
  struct Run {
    int offset, bytes, digits;
  };
  constexpr std::array<Run, 3> kRuns{{{0, 32, 5}, {32, 16, 5}, {48, 4, 4}}};
  const float d = LoadHalf(block + 52);
  for (const Run& run : kRuns) {
    for (int digit = 0; digit < run.digits; ++digit) {
      for (int i = 0; i < run.bytes; ++i) *out++ = TernaryDigit(block[run.offset + i], digit, d);
    }
  }
}

// {q: 2 bits x 256, d: half}: value = d * (q - 1); bit-major in runs of 32 bytes.
void BlockTQ2_0(const Byte* block, float* out) {
  const float d = LoadHalf(block + 64);
  for (int run = 0; run < 8; ++run) {
    const Byte* q = block + (run / 4) * 32;
    const int shift = (run % 4) * 2;
    for (int i = 0; i < 32; ++i) out[run * 32 + i] = static_cast<float>(((q[i] >> shift) & 3) - 1) * d;
  }
}

// E2M1 values doubled, so that the table is whole numbers; the scale is halved in turn.
constexpr std::array<float, 16> kMxfp4Values{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// {e: u8, nibbles[16]}: value = 2^(e - 127) * e2m1(q).
void BlockMXFP4(const Byte* block, float* out) {
  const std::uint32_t e = block[0];
  const float d = std::bit_cast<float>(e < 2 ? 0x00200000u << e : (e - 1) << 23);  // 2^(e - 128)
  for (int i = 0; i < 16; ++i) {
    out[i] = d * kMxfp4Values[block[1 + i] & 15];
    out[i + 16] = d * kMxfp4Values[block[1 + i] >> 4];
  }
}

void ElementF16(const Byte* block, float* out) {
  *out = LoadHalf(block);
}
void ElementBF16(const Byte* block, float* out) {
  *out = BFloat16ToFloat(LoadU16(block));
}

// The decoder and both sizes are constants here, so that the compiler can inline and unroll.
template <auto DecodeBlock, std::size_t kElements, std::size_t kBytes>
void DecodeAll(const Byte* source, std::span<float> destination) {
  float* out = destination.data();
  for (std::size_t n = destination.size() / kElements; n > 0; --n) {
    DecodeBlock(source, out);
    source += kBytes;
    out += kElements;
  }
}

}  // namespace

void Dequantize(DType type, std::span<const std::byte> source, std::span<float> destination) {
  const auto* bytes = reinterpret_cast<const Byte*>(source.data());
  switch (type) {
    case DType::kF32:
      if (!destination.empty()) std::memcpy(destination.data(), bytes, destination.size_bytes());
      return;
    case DType::kF16:
      return DecodeAll<ElementF16, 1, 2>(bytes, destination);
    case DType::kBF16:
      return DecodeAll<ElementBF16, 1, 2>(bytes, destination);
    case DType::kQ4_0:
      return DecodeAll<BlockQ4_0, 32, 18>(bytes, destination);
    case DType::kQ4_1:
      return DecodeAll<BlockQ4_1, 32, 20>(bytes, destination);
    case DType::kQ5_0:
      return DecodeAll<BlockQ5_0, 32, 22>(bytes, destination);
    case DType::kQ5_1:
      return DecodeAll<BlockQ5_1, 32, 24>(bytes, destination);
    case DType::kQ8_0:
      return DecodeAll<BlockQ8_0, 32, 34>(bytes, destination);
    case DType::kQ2_K:
      return DecodeAll<BlockQ2_K, 256, 84>(bytes, destination);
    case DType::kQ3_K:
      return DecodeAll<BlockQ3_K, 256, 110>(bytes, destination);
    case DType::kQ4_K:
      return DecodeAll<BlockQ4_K, 256, 144>(bytes, destination);
    case DType::kQ5_K:
      return DecodeAll<BlockQ5_K, 256, 176>(bytes, destination);
    case DType::kQ6_K:
      return DecodeAll<BlockQ6_K, 256, 210>(bytes, destination);
    case DType::kIQ4_NL:
      return DecodeAll<BlockIQ4_NL, 32, 18>(bytes, destination);
    case DType::kIQ4_XS:
      return DecodeAll<BlockIQ4_XS, 256, 136>(bytes, destination);
    case DType::kTQ1_0:
      return DecodeAll<BlockTQ1_0, 256, 54>(bytes, destination);
    case DType::kTQ2_0:
      return DecodeAll<BlockTQ2_0, 256, 66>(bytes, destination);
    case DType::kMXFP4:
      return DecodeAll<BlockMXFP4, 32, 17>(bytes, destination);
    default:
      std::abort();  // Info(type).can_dequantize is false: the caller broke the contract
  }
}

}  // namespace skipjack
