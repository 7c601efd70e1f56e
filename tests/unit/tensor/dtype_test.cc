#include "tensor/dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace skipjack {
namespace {

using ::testing::HasSubstr;

// IEEE binary16 by its definition, in double arithmetic.
double HalfByDefinition(std::uint16_t half) {
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  if (exponent == 31) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(HalfTest, EveryValueEqualsTheDefinition) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double expected = HalfByDefinition(half);
    const float got = HalfToFloat(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(got), expected) << bits;
    }
    ASSERT_EQ(std::signbit(got), (bits & 0x8000) != 0) << bits;
  }
}

TEST(HalfTest, EveryValueSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const std::uint16_t back = FloatToHalf(HalfToFloat(half));
    if (std::isnan(HalfByDefinition(half))) {
      ASSERT_EQ(back, half | 0x200) << bits;  // quiet, payload kept
    } else {
      ASSERT_EQ(back, half);
    }
  }
}

TEST(HalfTest, RoundsToNearestEvenBetweenEachPairOfNeighbours) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {  // finite, non-negative, with a finite successor
    const double low = HalfByDefinition(static_cast<std::uint16_t>(bits));
    const double high = HalfByDefinition(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact in float
    const std::uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    ASSERT_EQ(FloatToHalf(middle), even) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), bits + 1) << bits;
    ASSERT_EQ(FloatToHalf(-middle), even | 0x8000) << bits;
  }
}

TEST(HalfTest, EdgesOfTheRange) {
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);  // half of the smallest subnormal: ties to even, that is zero
  EXPECT_EQ(FloatToHalf(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose payload lies in bits that half lacks must not turn into infinity.
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::bit_cast<float>(0x7f800001u)))));
}

TEST(BFloat16Test, WidensByAppendingZeros) {
  EXPECT_EQ(BFloat16ToFloat(0x3f80), 1.0f);
  EXPECT_EQ(BFloat16ToFloat(0xc000), -2.0f);
  EXPECT_EQ(BFloat16ToFloat(0x0001), std::bit_cast<float>(0x00010000u));
}

TEST(BFloat16Test, EveryValueSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<std::uint16_t>(bits);
    const bool nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(FloatToBFloat16(BFloat16ToFloat(value)), nan ? bits | 0x40 : bits);
  }
}

TEST(BFloat16Test, RoundsToNearestEven) {
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isfinite(value)) continue;
    const std::uint32_t low = std::bit_cast<std::uint32_t>(value) & 0xffff0000u;
    const std::uint32_t tail = std::bit_cast<std::uint32_t>(value) & 0xffffu;
    const bool up = tail > 0x8000 || (tail == 0x8000 && ((low >> 16) & 1) != 0);
    ASSERT_EQ(FloatToBFloat16(value), (low >> 16) + (up ? 1 : 0)) << value;
  }
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(std::bit_cast<float>(0xffffffffu)))));
}

TEST(DTypeTest, NumbersThatNameNoTypeAreRefused) {
  for (std::uint32_t value : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 41u, 255u, 0x80000000u, 0xffffffffu}) {
    EXPECT_FALSE(DTypeFromGguf(value).has_value()) << value;
  }
  int known = 0;
  for (std::uint32_t value = 0; value < 64; ++value) {
    const auto type = DTypeFromGguf(value);
    if (!type) continue;
    ++known;
    EXPECT_EQ(static_cast<std::uint32_t>(*type), value);
    EXPECT_FALSE(Info(*type).name.empty());
  }
  EXPECT_EQ(known, 33);
}

TEST(DTypeTest, RowBytes) {
  EXPECT_EQ(RowBytes(DType::kF32, 3).value(), 12);
  EXPECT_EQ(RowBytes(DType::kQ4_1, 576).value(), 360);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 512).value(), 420);
  EXPECT_EQ(RowBytes(DType::kQ6_K, 0).value(), 0);
  EXPECT_THAT(RowBytes(DType::kQ4_K, 257).status().message(), HasSubstr("257"));
  EXPECT_FALSE(RowBytes(DType::kF32, -1).ok());
  EXPECT_THAT(RowBytes(DType::kF32, std::numeric_limits<std::int64_t>::max()).status().message(),
              HasSubstr("overflows"));
  EXPECT_FALSE(RowBytes(DType::kF64, (std::int64_t{1} << 60)).ok());
  EXPECT_TRUE(RowBytes(DType::kQ4_0, std::int64_t{1} << 62).ok());
}

}  // namespace
}  // namespace skipjack
