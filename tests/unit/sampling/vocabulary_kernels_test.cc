#include "sampling/vocabulary_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "tests/unit/sampling/test_rows.h"

namespace skipjack {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Owns a row with its padded tail and the arrays that the kernels fill.
class Blocks {
 public:
  explicit Blocks(std::vector<float> logits) : logits_(std::move(logits)) {
    const auto size = static_cast<std::int32_t>(logits_.size());
    tail_.fill(-kInfinity);
    const std::int32_t full = size / kBlockWidth;
    std::copy(logits_.begin() + full * kBlockWidth, logits_.end(), tail_.begin());
    row_ = {logits_.data(), tail_.data(), full, (size + kBlockWidth - 1) / kBlockWidth};
    const auto blocks = static_cast<std::size_t>(row_.blocks);
    maxima.resize(blocks);
    bounds.resize(blocks);
    sums.resize(blocks);
    ready.resize(blocks);
    weights.resize(blocks * kBlockWidth);
  }

  const BlockedRow& row() const { return row_; }
  const std::vector<float>& logits() const { return logits_; }
  WeightCache Cache() { return {weights.data(), sums.data(), ready.data()}; }

  std::vector<float> maxima, bounds, sums, weights;
  std::vector<std::uint8_t> ready;

 private:
  std::vector<float> logits_;
  std::array<float, kBlockWidth> tail_;
  BlockedRow row_;
};

std::vector<const VocabularyKernels*> Variants() {
  std::vector<const VocabularyKernels*> variants = {GenericVocabularyKernels()};
  if (Avx2VocabularyKernels() != nullptr) variants.push_back(Avx2VocabularyKernels());
  return variants;
}

class VocabularyKernelsTest : public ::testing::TestWithParam<const VocabularyKernels*> {
 protected:
  const VocabularyKernels& kernels() const { return *GetParam(); }
};

TEST_P(VocabularyKernelsTest, ScanFindsBlockMaximaAndMaximum) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 1000u}) {
    for (const auto& [name, logits] : testing::TestRows(size, 1)) {
      Blocks blocks(logits);
      const ScanResult scan = kernels().scan(blocks.row(), blocks.maxima.data());
      EXPECT_FALSE(scan.has_nan) << name;
      EXPECT_EQ(scan.maximum, *std::max_element(logits.begin(), logits.end())) << name;
      for (std::size_t b = 0; b < blocks.maxima.size(); ++b) {
        const auto first = logits.begin() + static_cast<std::ptrdiff_t>(b * kBlockWidth);
        const auto last = logits.begin() + static_cast<std::ptrdiff_t>(std::min(size, (b + 1) * kBlockWidth));
        EXPECT_EQ(blocks.maxima[b], *std::max_element(first, last)) << name;
      }
    }
  }
}

TEST_P(VocabularyKernelsTest, ScanSeesANanAnywhere) {
  for (std::size_t at = 0; at < 150; ++at) {
    std::vector<float> logits = testing::NormalRow(150, 1.0f, 5);
    logits[at] = std::nanf("");
    Blocks blocks(std::move(logits));
    EXPECT_TRUE(kernels().scan(blocks.row(), blocks.maxima.data()).has_nan) << at;
  }
}

TEST_P(VocabularyKernelsTest, CountsWhatIsAtLeastAThreshold) {
  for (const auto& [name, logits] : testing::TestRows(777, 2)) {
    Blocks blocks(logits);
    kernels().scan(blocks.row(), blocks.maxima.data());
    for (const float threshold : {-1e4f, -2.0f, 0.0f, 1.0f, 2.0f, 100.0f}) {
      const auto expected =
          std::count_if(logits.begin(), logits.end(), [&](float x) { return x >= threshold; });
      EXPECT_EQ(kernels().count_row(blocks.row(), blocks.maxima.data(), threshold), expected) << name;
      EXPECT_EQ(kernels().count_values(logits.data(), 777, threshold), expected) << name;
    }
  }
}

TEST_P(VocabularyKernelsTest, WeightsAreExponentials) {
  for (const float temperature : {0.1f, 1.0f, 7.0f}) {
    Blocks blocks(testing::NormalRow(64, 5.0f, 3));
    const float maximum = *std::max_element(blocks.logits().begin(), blocks.logits().end());
    const WeightScale scale = {maximum, static_cast<float>(std::numbers::log2e) / temperature};
    std::array<float, kBlockWidth> weights;
    const float sum = kernels().weigh_block(blocks.logits().data(), scale, weights.data());
    double expected_sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double d = (static_cast<double>(blocks.logits()[i]) - static_cast<double>(maximum)) /
                       static_cast<double>(temperature);
      const double expected = d > -87.3 ? std::exp(d) : 0.0;
      expected_sum += expected;
      // The exponent's rounding grows with its size: 2^-24 of up to 126.
      EXPECT_NEAR(weights[i], expected, expected * (5e-7 + std::abs(d) * 1.5e-7)) << d;
    }
    EXPECT_NEAR(sum, expected_sum, expected_sum * 1e-6);
  }
}

TEST_P(VocabularyKernelsTest, FarLogitsWeighExactlyNothing) {
  std::array<float, kBlockWidth> logits;
  logits.fill(-kInfinity);
  logits[0] = 0.0f;
  logits[1] = -126.5f;
  logits[2] = std::numeric_limits<float>::lowest();
  logits[3] = -125.0f;
  std::array<float, kBlockWidth> weights;
  EXPECT_EQ(kernels().weigh_block(logits.data(), {0.0f, 1.0f}, weights.data()), 1.0f);
  EXPECT_EQ(weights[0], 1.0f);
  EXPECT_EQ(weights[1], 0.0f);
  EXPECT_EQ(weights[2], 0.0f);
  EXPECT_NEAR(weights[3], 0x1p-125, 0x1p-144);
  EXPECT_EQ(weights[4], 0.0f);
}

TEST_P(VocabularyKernelsTest, BoundsHoldAndSumsAgree) {
  for (const auto& [name, logits] : testing::TestRows(1000, 4)) {
    Blocks blocks(logits);
    const ScanResult scan = kernels().scan(blocks.row(), blocks.maxima.data());
    const WeightScale scale = {scan.maximum, static_cast<float>(std::numbers::log2e)};
    kernels().bound_blocks(blocks.maxima.data(), blocks.row().blocks, scale, blocks.bounds.data());
    const float lowest = std::numeric_limits<float>::lowest();
    kernels().weigh_row(blocks.row(), blocks.maxima.data(), lowest, scale, blocks.Cache());
    double total = 0.0;
    for (std::size_t b = 0; b < blocks.sums.size(); ++b) {
      if (blocks.maxima[b] == -kInfinity) {
        EXPECT_EQ(blocks.ready[b], 0) << name;
        EXPECT_EQ(blocks.bounds[b], 0.0f) << name;
        continue;
      }
      EXPECT_EQ(blocks.ready[b], 1) << name;
      EXPECT_LE(blocks.sums[b], blocks.bounds[b]) << name;
      EXPECT_LE(blocks.bounds[b], 64.001f * std::max(blocks.sums[b], 0x1p-126f)) << name;
      total += static_cast<double>(blocks.sums[b]);
    }
    EXPECT_NEAR(kernels().tally_row(blocks.row(), blocks.maxima.data(), lowest, blocks.Cache()).mass, total,
                total * 1e-6)
        << name;
    EXPECT_NEAR(kernels().total_weight(blocks.row(), blocks.maxima.data(), scale), total, total * 1e-6)
        << name;
  }
}

TEST_P(VocabularyKernelsTest, TalliesWhatReachesAThreshold) {
  for (const auto& [name, logits] : testing::TestRows(500, 6)) {
    Blocks blocks(logits);
    const ScanResult scan = kernels().scan(blocks.row(), blocks.maxima.data());
    const WeightScale scale = {scan.maximum, 1.0f};
    kernels().weigh_row(blocks.row(), blocks.maxima.data(), std::numeric_limits<float>::lowest(), scale,
                        blocks.Cache());
    for (const float threshold : {-3.0f, 0.0f, 1.0f, 2.5f}) {
      std::int32_t count = 0;
      double mass = 0.0;
      for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] < threshold) continue;
        ++count;
        mass += std::exp2(static_cast<double>(logits[i]) - static_cast<double>(scan.maximum));
      }
      const Tally tally = kernels().tally_row(blocks.row(), blocks.maxima.data(), threshold, blocks.Cache());
      EXPECT_EQ(tally.count, count) << name;
      EXPECT_NEAR(tally.mass, mass, mass * 1e-6 + 1e-36) << name;
    }
  }
}

TEST_P(VocabularyKernelsTest, WeighsOnlyTheBlocksThatReachTheThreshold) {
  std::vector<float> logits(200, -5.0f);
  logits[70] = 1.0f;
  Blocks blocks(logits);
  const ScanResult scan = kernels().scan(blocks.row(), blocks.maxima.data());
  const WeightScale scale = {scan.maximum, 1.0f};
  kernels().weigh_row(blocks.row(), blocks.maxima.data(), 0.0f, scale, blocks.Cache());
  EXPECT_EQ(blocks.ready, (std::vector<std::uint8_t>{0, 1, 0, 0}));
  // What is ready is not computed again.
  blocks.sums[1] = 42.0f;
  kernels().weigh_row(blocks.row(), blocks.maxima.data(), -10.0f, scale, blocks.Cache());
  EXPECT_EQ(blocks.ready, (std::vector<std::uint8_t>{1, 1, 1, 1}));
  EXPECT_EQ(blocks.sums[1], 42.0f);
  EXPECT_NEAR(blocks.sums[3], 8 * 0x1p-6, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(AllVariants, VocabularyKernelsTest, ::testing::ValuesIn(Variants()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace skipjack
