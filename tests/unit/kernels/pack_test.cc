#include <gtest/gtest.h>

#include <cstring>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/quant_blocks.h"
#include "tests/unit/kernels/test_support.h"

namespace skipjack::kernels {
namespace {

PackSource Source(SourceType type, const std::vector<std::byte>& blocks, std::int64_t rows,
                  std::int64_t columns) {
  const std::int64_t row_blocks = columns / SourceBlockElements(type);
  return {type, blocks.data(), static_cast<std::size_t>(row_blocks * SourceBlockBytes(type)), rows, columns};
}

int ByteAt(const std::byte* p) {
  return static_cast<int>(*p);
}

float HalfAt(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof(bits));
  return HalfBitsToFloat(bits);
}

// Worked by hand from packed_matrix.h: row r of 3, code of column k is (k + r) % 16, scale 2^r.
TEST(PackPanels, NibblesLieWhereTheHeaderSays) {
  std::vector<std::byte> blocks(3 * 18);
  for (int r = 0; r < 3; ++r) {
    std::byte* block = blocks.data() + 18 * r;
    const std::uint16_t scale = FloatToHalfBits(static_cast<float>(1 << r));
    std::memcpy(block, &scale, sizeof(scale));
    for (int i = 0; i < 16; ++i)
      block[2 + i] = static_cast<std::byte>((i + r) % 16 | ((16 + i + r) % 16) << 4);
  }
  const PackedFormat format = *FormatFor(SourceType::kQ4_0, Precision::kInt8);
  ASSERT_EQ(PackedBytes(format, 3, 32), 64u + 256u);
  AlignedBytes packed(PackedBytes(format, 3, 32));
  PackPanels(format, Source(SourceType::kQ4_0, blocks, 3, 32), 0, 1, packed.data());
  for (int r = 0; r < 16; ++r) {
    EXPECT_EQ(HalfAt(packed.data() + 2 * r), r < 3 ? static_cast<float>(1 << r) : 0.0f);
    for (int q = 0; q < 4; ++q) {
      for (int j = 0; j < 4; ++j) {
        const int byte = ByteAt(packed.data() + 64 + 64 * q + 4 * r + j);
        EXPECT_EQ(byte & 15, r < 3 ? (4 * q + j + r) % 16 : 0);
        EXPECT_EQ(byte >> 4, r < 3 ? (16 + 4 * q + j + r) % 16 : 0);
      }
    }
  }
}

TEST(PackPanels, FloatsLieWhereTheHeaderSays) {
  std::vector<float> values(2 * 3);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i + 1);  // rows 1 2 3 and 4 5 6
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  const PackSource source = Source(SourceType::kF32, bytes, 2, 3);

  const PackedFormat f32 = *FormatFor(SourceType::kF32, Precision::kF32);
  AlignedBytes packed(PackedBytes(f32, 2, 3));
  PackPanels(f32, source, 0, 1, packed.data());
  const auto* columns = reinterpret_cast<const float*>(packed.data());
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(columns[16 * k], static_cast<float>(k + 1));
    EXPECT_EQ(columns[16 * k + 1], static_cast<float>(k + 4));
    EXPECT_EQ(columns[16 * k + 2], 0.0f);
  }

  const PackedFormat bf16 = *FormatFor(SourceType::kF32, Precision::k16Bit);
  ASSERT_EQ(PackedBytes(bf16, 2, 3), 128u);  // the odd third column is padded to a pair
  AlignedBytes pairs(128);
  PackPanels(bf16, source, 0, 1, pairs.data());
  std::uint16_t bits[64];
  std::memcpy(bits, pairs.data(), sizeof(bits));
  const float want[] = {1, 2, 4, 5};  // first pair of row 0, then of row 1
  for (int i = 0; i < 4; ++i) EXPECT_EQ(BFloat16BitsToFloat(bits[i]), want[i]);
  const float second[] = {3, 0, 6, 0};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(BFloat16BitsToFloat(bits[32 + i]), second[i]);
}

class PackTypes : public testing::TestWithParam<SourceType> {};

// Threads pack their own panels, and mapped files align nothing.
TEST_P(PackTypes, PiecesFromUnalignedSourcesEqualTheWhole) {
  const SourceType type = GetParam();
  constexpr std::int64_t kRows = 53;
  for (Precision precision : {Precision::kF32, Precision::k16Bit, Precision::kInt8}) {
    const auto blocks = MakeBlocks(type, kRows, 512, Fill::kRandom, 3);
    const PackedFormat format = *FormatFor(type, precision);
    const std::size_t panel_bytes = PanelBytes(format, 512);
    AlignedBytes whole(PackedBytes(format, kRows, 512));
    ASSERT_EQ(whole.size(), 4 * panel_bytes);
    PackPanels(format, Source(type, blocks, kRows, 512), 0, 4, whole.data());

    std::vector<std::byte> shifted(blocks.size() + 1);
    std::memcpy(shifted.data() + 1, blocks.data(), blocks.size());
    PackSource source = Source(type, blocks, kRows, 512);
    source.data = shifted.data() + 1;
    AlignedBytes pieces(whole.size());
    std::memset(pieces.data(), 0xff, pieces.size());
    for (auto [first, count] : {std::pair{3, 1}, {0, 1}, {1, 2}}) {
      PackPanels(format, source, first, count, pieces.data() + static_cast<std::size_t>(first) * panel_bytes);
    }
    EXPECT_EQ(std::memcmp(pieces.data(), whole.data(), whole.size()), 0);
  }
}

TEST_P(PackTypes, SizesAddUp) {
  for (Precision precision : {Precision::kF32, Precision::k16Bit, Precision::kInt8}) {
    const PackedFormat format = *FormatFor(GetParam(), precision);
    for (std::int64_t chunks : {1, 2, 7}) {
      EXPECT_EQ(PanelBytes(format, chunks * 256), static_cast<std::size_t>(chunks) * ChunkBytes(format, 256));
    }
    EXPECT_EQ(PackedBytes(format, 17, 256), 2 * PanelBytes(format, 256));
    EXPECT_EQ(PanelBytes(format, 512) % 64, 0u);
  }
}

std::string Name(const testing::TestParamInfo<SourceType>& parameter) {
  return TypeName(parameter.param);
}
INSTANTIATE_TEST_SUITE_P(AllTypes, PackTypes, testing::ValuesIn(AllSourceTypes()), Name);

// Worked by hand from packed_matrix.h: code of column k is k % 3 in row 2, whose scale is 2; the rest is
// zero.
TEST(PackPanels, TwoBitCodesLieWhereTheHeaderSays) {
  std::vector<std::byte> blocks(3 * 66);
  std::byte* row = blocks.data() + 2 * 66;
  for (int k = 0; k < 256; ++k)  // the file's order: 128 columns in 32 bytes, 32 columns per bit pair
    row[k / 128 * 32 + k % 32] |= static_cast<std::byte>(k % 3 << (2 * (k / 32 % 4)));
  const std::uint16_t scale = FloatToHalfBits(2.0f);
  std::memcpy(row + 64, &scale, sizeof(scale));
  const PackedFormat format = *FormatFor(SourceType::kTQ2_0, Precision::kInt8);
  constexpr int kScaleBytes = 192;  // 16 halves and 8 x 16 bytes, padded to 64
  ASSERT_EQ(PackedBytes(format, 3, 256), kScaleBytes + 1024u);
  AlignedBytes packed(PackedBytes(format, 3, 256));
  PackPanels(format, Source(SourceType::kTQ2_0, blocks, 3, 256), 0, 1, packed.data());
  EXPECT_EQ(HalfAt(packed.data() + 2 * 2), 2.0f);
  EXPECT_EQ(HalfAt(packed.data() + 2 * 1), 0.0f);
  for (int group = 0; group < 8; ++group) EXPECT_EQ(ByteAt(packed.data() + 32 + 16 * group + 2), 1);
  for (int k = 0; k < 256; ++k) {
    const int quad = k % 32 / 4;
    const std::byte* vector = packed.data() + kScaleBytes + k / 32 * 128 + quad / 4 * 64;
    EXPECT_EQ(ByteAt(vector + 4 * 2 + k % 4) >> (2 * (quad % 4)) & 3, k % 3) << k;
    EXPECT_EQ(ByteAt(vector + 4 * 1 + k % 4), 0) << k;
  }
}

// Packing must not grow what a decode step has to read: bits per weight at 256 columns and more.
TEST(PackedFormat, BitsPerWeightStayThoseOfTheFile) {
  const auto bits = [](SourceType type) {
    const PackedFormat format = *FormatFor(type, Precision::kInt8);
    return static_cast<double>(PanelBytes(format, 256)) * 8.0 / (256.0 * kPanelRows);
  };
  EXPECT_EQ(bits(SourceType::kQ4_0), 4.5);
  EXPECT_EQ(bits(SourceType::kQ4_1), 5.0);
  EXPECT_EQ(bits(SourceType::kQ5_0), 5.5);
  EXPECT_EQ(bits(SourceType::kQ5_1), 6.0);
  EXPECT_EQ(bits(SourceType::kQ8_0), 8.5);
  EXPECT_EQ(bits(SourceType::kQ2_K), 3.125);
  EXPECT_EQ(bits(SourceType::kQ3_K), 3.625);
  EXPECT_EQ(bits(SourceType::kQ4_K), 4.625);
  EXPECT_EQ(bits(SourceType::kQ5_K), 5.625);
  EXPECT_EQ(bits(SourceType::kQ6_K), 6.625);
  EXPECT_EQ(bits(SourceType::kIQ4_NL), 4.5);
  EXPECT_EQ(bits(SourceType::kIQ4_XS), 4.375);
  EXPECT_EQ(bits(SourceType::kMXFP4), 4.5);
  EXPECT_EQ(bits(SourceType::kTQ2_0), 2.375);
  EXPECT_EQ(bits(SourceType::kBF16), 16.0);
  // The engine promises to need at most 1.2 times the file's weights (and 150 MB). The exception: TQ1_0 holds
  // five ternary digits in a byte; here each takes two bits.
  for (const SourceType type : AllSourceTypes()) {
    const double file = 8.0 * SourceBlockBytes(type) / SourceBlockElements(type);
    EXPECT_LE(bits(type) / file, type == SourceType::kTQ1_0 ? 1.41 : 1.2) << TypeName(type);
  }
}

TEST(PackedFormat, SixteenBitSourcesKeepTheirType) {
  EXPECT_EQ(FormatFor(SourceType::kF16, Precision::kInt8)->storage, CodeStorage::kFloat16);
  EXPECT_EQ(FormatFor(SourceType::kBF16, Precision::kInt8)->storage, CodeStorage::kBFloat16);
  EXPECT_EQ(FormatFor(SourceType::kF32, Precision::k16Bit)->storage, CodeStorage::kBFloat16);
  EXPECT_EQ(FormatFor(SourceType::kQ4_K, Precision::k16Bit)->storage, CodeStorage::kFloat16);
  EXPECT_FALSE(FormatFor(static_cast<SourceType>(24), Precision::kF32).has_value());
}

}  // namespace
}  // namespace skipjack::kernels
