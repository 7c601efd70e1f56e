#include "kernels/cpu/quant_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "tests/unit/kernels/test_support.h"

namespace skipjack::kernels {
namespace {

std::vector<char> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class BlockFixture : public testing::TestWithParam<SourceType> {};

// The fixtures' values come from an independent decoder; a block's numbers may differ by 1e-6 of its largest.
TEST_P(BlockFixture, DecodesToTheFixturesNumbers) {
  const SourceType type = GetParam();
  const std::string base = std::string(SKIPJACK_FIXTURES) + "/blocks/" + TypeName(type);
  const auto blocks = ReadFile(base + ".bin");
  const auto expected_bytes = ReadFile(base + ".f32");
  const std::size_t block_bytes = static_cast<std::size_t>(SourceBlockBytes(type));
  const std::size_t elements = static_cast<std::size_t>(SourceBlockElements(type));
  ASSERT_FALSE(blocks.empty());
  ASSERT_EQ(blocks.size() % block_bytes, 0u);
  const std::size_t count = blocks.size() / block_bytes;
  ASSERT_EQ(expected_bytes.size(), count * elements * sizeof(float));
  std::vector<float> expected(count * elements);
  std::memcpy(expected.data(), expected_bytes.data(), expected_bytes.size());

  std::vector<float> decoded(elements);
  for (std::size_t b = 0; b < count; ++b) {
    DequantizeBlock(type, reinterpret_cast<const std::byte*>(blocks.data()) + b * block_bytes,
                    decoded.data());
    const float* want = expected.data() + b * elements;
    float largest = 0.0f;
    for (std::size_t i = 0; i < elements; ++i) largest = std::max(largest, std::fabs(want[i]));
    for (std::size_t i = 0; i < elements; ++i) {
      if (std::isnan(want[i])) {
        EXPECT_TRUE(std::isnan(decoded[i])) << "block " << b << " element " << i;
      } else {
        ASSERT_NEAR(decoded[i], want[i], 1e-6f * largest) << "block " << b << " element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, BlockFixture,
                         testing::Values(SourceType::kF16, SourceType::kBF16, SourceType::kQ4_0,
                                         SourceType::kQ4_1, SourceType::kQ5_0, SourceType::kQ5_1,
                                         SourceType::kQ8_0, SourceType::kQ2_K, SourceType::kQ3_K,
                                         SourceType::kQ4_K, SourceType::kQ5_K, SourceType::kQ6_K,
                                         SourceType::kIQ4_NL, SourceType::kIQ4_XS, SourceType::kMXFP4,
                                         SourceType::kTQ1_0, SourceType::kTQ2_0),
                         [](const auto& parameter) { return TypeName(parameter.param); });

TEST(HalfConversion, RoundTripsEveryFiniteHalf) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = HalfBitsToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfBitsToFloat(FloatToHalfBits(value))));
    } else {
      ASSERT_EQ(FloatToHalfBits(value), half);
    }
  }
}

TEST(HalfConversion, RoundsToNearestEven) {
  EXPECT_EQ(FloatToHalfBits(1.0f + 0x1p-11f), 0x3c00);             // half way: even
  EXPECT_EQ(FloatToHalfBits(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);  // above half way
  EXPECT_EQ(FloatToHalfBits(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(FloatToHalfBits(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalfBits(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalfBits(0x1p-25f), 0x0000);  // half of the smallest subnormal: even
  EXPECT_EQ(FloatToHalfBits(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalfBits(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(BFloat16Conversion, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(FloatToBFloat16Bits(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16Bits(1.0f + 0x3p-8f), 0x3f82);
  EXPECT_TRUE(std::isnan(BFloat16BitsToFloat(FloatToBFloat16Bits(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace skipjack::kernels
