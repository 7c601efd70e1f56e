#include "kernels/cpu/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "tests/unit/kernels/test_support.h"

namespace skipjack::kernels {
namespace {

class Quantize : public testing::TestWithParam<Level> {
 protected:
  std::vector<ActivationBlock> Blocks(ActivationKind kind, const std::vector<float>& x) const {
    std::vector<ActivationBlock> blocks((x.size() + kBlockColumns - 1) / kBlockColumns);
    GetParam().table->quantize(kind, x.data(), static_cast<std::int64_t>(x.size()), blocks.data());
    return blocks;
  }
};

constexpr ActivationKind kIntegerKinds[] = {ActivationKind::kInt8, ActivationKind::kInt8Pairs};

TEST_P(Quantize, RoundsToTheNearestMultipleOfTheScale) {
  for (ActivationKind kind : kIntegerKinds) {
    const std::vector<float> x = RandomFloats(32 * 50, 5, 3.0f);
    const auto blocks = Blocks(kind, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const ActivationBlock& block = blocks[i / 32];
      const float value = static_cast<float>(block.codes[i % 32]) * block.scale;
      ASSERT_NEAR(value, x[i], 0.501f * block.scale) << i;
    }
  }
}

TEST_P(Quantize, UsesTheWholeRangeAndItsRule) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const std::vector<float> x = RandomFloats(32, seed);
    const ActivationBlock whole = Blocks(ActivationKind::kInt8, x)[0];
    int largest = 0;
    for (int code : whole.codes) largest = std::max(largest, std::abs(code));
    EXPECT_EQ(largest, 127);
    const ActivationBlock pairs = Blocks(ActivationKind::kInt8Pairs, x)[0];
    int largest_pair = 0;
    for (int i = 0; i < 32; i += 2) {
      largest_pair = std::max(largest_pair, std::abs(pairs.codes[i]) + std::abs(pairs.codes[i + 1]));
    }
    EXPECT_LE(largest_pair, 128);
    EXPECT_GE(largest_pair, 126);
  }
}

// The worst case for rounding: both neighbours end on .5 and are rounded away from zero.
TEST_P(Quantize, PairsStayWithinTheirBoundWhenBothRoundUp) {
  for (float first = 0.5f; first < 127.0f; first += 1.0f) {
    std::vector<float> x(32, 0.0f);
    x[6] = first;
    x[7] = -(127.0f - first);
    const ActivationBlock block = Blocks(ActivationKind::kInt8Pairs, x)[0];
    EXPECT_LE(std::abs(block.codes[6]) + std::abs(block.codes[7]), 128) << first;
  }
}

TEST_P(Quantize, SumsAreThoseOfTheCodes) {
  for (ActivationKind kind : kIntegerKinds) {
    for (const ActivationBlock& block : Blocks(kind, RandomFloats(32 * 20, 9))) {
      int low = 0;
      int high = 0;
      for (int i = 0; i < 16; ++i) {
        low += block.codes[i];
        high += block.codes[16 + i];
      }
      EXPECT_EQ(block.sum, block.scale * static_cast<float>(low + high));
      EXPECT_EQ(block.half_sum[0], block.scale * static_cast<float>(low));
      EXPECT_EQ(block.half_sum[1], block.scale * static_cast<float>(high));
    }
  }
}

TEST_P(Quantize, AllLevelsGiveTheSameBlocks) {
  const std::vector<float> x = RandomFloats(32 * 100 + 7, 11, 0.01f);
  for (ActivationKind kind : kIntegerKinds) {
    const auto mine = Blocks(kind, x);
    std::vector<ActivationBlock> generic(mine.size());
    Select(IsaLevel::kGeneric)->quantize(kind, x.data(), static_cast<std::int64_t>(x.size()), generic.data());
    EXPECT_EQ(std::memcmp(mine.data(), generic.data(), mine.size() * sizeof(ActivationBlock)), 0);
  }
}

TEST_P(Quantize, ColumnsBeyondTheLastCountAsZero) {
  for (ActivationKind kind : kIntegerKinds) {
    const std::vector<float> x = RandomFloats(37, 2);
    std::vector<float> padded = x;
    padded.resize(64, 0.0f);
    const auto blocks = Blocks(kind, x);
    const auto expected = Blocks(kind, padded);
    EXPECT_EQ(std::memcmp(blocks.data(), expected.data(), 2 * sizeof(ActivationBlock)), 0);
  }
}

TEST_P(Quantize, ZeroAndTinyBlocksAreZero) {
  for (ActivationKind kind : kIntegerKinds) {
    for (float value : {0.0f, -0.0f, 1e-40f, -3e-38f}) {
      const ActivationBlock block = Blocks(kind, std::vector<float>(32, value))[0];
      EXPECT_EQ(block.scale, 0.0f);
      EXPECT_EQ(block.sum, 0.0f);
      for (int code : block.codes) EXPECT_EQ(code, 0);
    }
  }
}

TEST_P(Quantize, NonFiniteValuesPoisonTheirBlockOnly) {
  constexpr float kBad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()};
  for (ActivationKind kind : kIntegerKinds) {
    for (float bad : kBad) {
      for (std::size_t place : {0u, 7u, 15u, 16u, 31u}) {
        std::vector<float> x = RandomFloats(96, 3);
        x[32 + place] = bad;
        const auto blocks = Blocks(kind, x);
        EXPECT_TRUE(std::isnan(blocks[1].scale));
        EXPECT_TRUE(std::isnan(blocks[1].sum));
        for (int code : blocks[1].codes) EXPECT_EQ(code, 0);
        EXPECT_TRUE(std::isfinite(blocks[0].scale) && std::isfinite(blocks[2].scale));
      }
    }
  }
}

TEST_P(Quantize, LargestFloatsGiveNoGarbage) {
  for (ActivationKind kind : kIntegerKinds) {
    std::vector<float> x(32, 0.0f);
    x[3] = std::numeric_limits<float>::max();
    const ActivationBlock block = Blocks(kind, x)[0];
    EXPECT_EQ(block.codes[3], 127);
    EXPECT_TRUE(std::isfinite(block.scale));
  }
}

std::string LevelName(const testing::TestParamInfo<Level>& parameter) {
  return parameter.param.name;
}
INSTANTIATE_TEST_SUITE_P(AllLevels, Quantize, testing::ValuesIn(TestedLevels()), LevelName);

TEST(ActivationRowBytes, HoldsTheBlocksAndAvoidsPowersOfTwo) {
  for (std::int64_t columns = 1; columns < 9000; columns += 37) {
    for (ActivationKind kind :
         {ActivationKind::kFloat32, ActivationKind::kInt8, ActivationKind::kInt8Pairs}) {
      const std::size_t bytes = ActivationRowBytes(kind, columns);
      const std::size_t needed =
          kind == ActivationKind::kFloat32
              ? static_cast<std::size_t>(columns) * sizeof(float)
              : static_cast<std::size_t>((columns + 31) / 32) * sizeof(ActivationBlock);
      EXPECT_GE(bytes, needed);
      EXPECT_EQ(bytes % 64, 0u);
      EXPECT_NE(bytes % 1024, 0u);
    }
  }
}

}  // namespace
}  // namespace skipjack::kernels
