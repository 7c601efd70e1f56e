#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

RopeConfig Plain(std::int32_t dimensions, float base) {
  RopeConfig config;
  config.dimensions = dimensions;
  config.base = base;
  return config;
}

TEST(RopeTest, PlainFrequencies) {
  const RopeTable table = MakeRopeTable(Plain(4, 100.0f), {});
  ASSERT_EQ(table.inverse_frequencies.size(), 2u);
  EXPECT_FLOAT_EQ(table.inverse_frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(table.inverse_frequencies[1], 0.1f);  // 100^(-2/4)
  EXPECT_EQ(table.magnitude, 1.0f);
}

TEST(RopeTest, LinearScalingDividesEveryFrequency) {
  RopeConfig config = Plain(8, 10000.0f);
  const RopeTable plain = MakeRopeTable(config, {});
  config.scaling = RopeScalingKind::kLinear;
  config.factor = 4.0f;
  const RopeTable scaled = MakeRopeTable(config, {});
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(scaled.inverse_frequencies[i] * 4.0f, plain.inverse_frequencies[i]);
  }
  EXPECT_EQ(scaled.magnitude, 1.0f);
}

TEST(RopeTest, AFactorWithoutScalingDoesNothing) {
  RopeConfig config = Plain(8, 10000.0f);
  const RopeTable plain = MakeRopeTable(config, {});
  config.factor = 4.0f;
  EXPECT_EQ(MakeRopeTable(config, {}).inverse_frequencies, plain.inverse_frequencies);
}

TEST(RopeTest, DivisorsOfTheFileApplyPerPair) {
  const RopeConfig config = Plain(4, 100.0f);
  const std::vector<float> factors{2.0f, 8.0f};
  const RopeTable table = MakeRopeTable(config, factors);
  EXPECT_FLOAT_EQ(table.inverse_frequencies[0], 0.5f);
  EXPECT_FLOAT_EQ(table.inverse_frequencies[1], 0.0125f);
}

// Values of an independent program for dimension 64, base 10000, factor 4, original context 4096.
TEST(RopeTest, YarnEqualsTheReference) {
  RopeConfig config = Plain(64, 10000.0f);
  config.scaling = RopeScalingKind::kYarn;
  config.factor = 4.0f;
  config.original_context = 4096;
  const RopeTable table = MakeRopeTable(config, {});
  ASSERT_EQ(table.inverse_frequencies.size(), 32u);
  const std::vector<std::pair<std::size_t, double>> reference{
      {0, 1.0},
      {1, 0.7498942093324559},
      {10, 0.056234132519034905},
      {15, 0.009488517882700576},
      {20, 0.0013378867023789293},
      {25, 0.00018747355233311394},
      {31, 3.33380358040831e-05},
  };
  for (const auto& [pair, expected] : reference) {
    EXPECT_NEAR(table.inverse_frequencies[pair] / expected, 1.0, 1e-6) << pair;
  }
  EXPECT_NEAR(table.magnitude, 1.1386294361119891, 1e-6);

  config.yarn_attention_factor = 0.5f;
  EXPECT_NEAR(MakeRopeTable(config, {}).magnitude, 0.5693147180559945, 1e-6);
  config.yarn_ext_factor = 0.0f;  // switched off: linear scaling, no magnitude of its own
  const RopeTable off = MakeRopeTable(config, {});
  EXPECT_FLOAT_EQ(off.inverse_frequencies[0], 0.25f);
  EXPECT_EQ(off.magnitude, 0.5f);
}

TEST(RopeTest, YarnStaysFiniteAtTheEdges) {
  for (const std::int32_t dimensions : {2, 64, 1024}) {
    for (const float base : {1.001f, 1e15f}) {
      for (const std::int32_t context : {1, 1 << 27}) {
        RopeConfig config = Plain(dimensions, base);
        config.scaling = RopeScalingKind::kYarn;
        config.factor = 1e6f;
        config.original_context = context;
        for (const float frequency : MakeRopeTable(config, {}).inverse_frequencies) {
          EXPECT_TRUE(std::isfinite(frequency));
          EXPECT_GE(frequency, 0.0f);
        }
      }
    }
  }
}

TEST(RopeTest, DivisorsAreReadFromTheTensor) {
  EXPECT_TRUE(ReadRopeFactors({}).empty());
  const std::vector<float> values{1.0f, 2.5f, 8.0f};
  TensorView tensor;
  tensor.shape = {3, 1, 1, 1};
  tensor.data = std::as_bytes(std::span(values));
  EXPECT_EQ(ReadRopeFactors(tensor), values);
}

}  // namespace
}  // namespace skipjack
