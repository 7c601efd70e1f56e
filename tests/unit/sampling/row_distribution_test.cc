#include "sampling/row_distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/unit/sampling/naive_distribution.h"
#include "tests/unit/sampling/test_rows.h"

namespace skipjack {
namespace {

using Condition = RowDistribution::Condition;
using testing::NaiveOrder;
using testing::NaivePrefix;
using testing::NaiveTypicality;
using testing::NaiveWeights;
using testing::TestRows;
using testing::Weights;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// What float weights may shift a probability by.
constexpr double kSlack = 2e-6;

std::vector<const VocabularyKernels*> Variants() {
  std::vector<const VocabularyKernels*> variants = {GenericVocabularyKernels()};
  if (Avx2VocabularyKernels() != nullptr) variants.push_back(Avx2VocabularyKernels());
  return variants;
}

std::size_t CountKept(const RowDistribution& row, std::span<const float> logits) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) kept += row.Keeps(static_cast<TokenId>(i)) ? 1 : 0;
  return kept;
}

// The kept tokens must be exactly the first ones of `order`; how many, the caller judges.
std::size_t ExpectPrefix(const RowDistribution& row, std::span<const float> logits,
                         const std::vector<TokenId>& order) {
  const std::size_t kept = CountKept(row, logits);
  EXPECT_GE(kept, 1u);
  EXPECT_LE(kept, order.size());
  for (std::size_t i = 0; i < std::min(kept, order.size()); ++i) {
    EXPECT_TRUE(row.Keeps(order[i])) << "rank " << i << " of " << kept;
  }
  return kept;
}

class RowDistributionTest : public ::testing::TestWithParam<const VocabularyKernels*> {
 protected:
  RowDistribution Make(std::size_t vocabulary) const {
    return RowDistribution(static_cast<std::int32_t>(vocabulary), *GetParam());
  }
};

TEST_P(RowDistributionTest, SeesWhatCannotBeSampled) {
  RowDistribution row = Make(100);
  std::vector<float> logits(100, 1.0f);
  EXPECT_EQ(row.Load(logits), Condition::kGood);
  logits[99] = kInfinity;
  EXPECT_EQ(row.Load(logits), Condition::kNonFinite);
  logits[99] = std::nanf("");
  EXPECT_EQ(row.Load(logits), Condition::kNonFinite);
  std::fill(logits.begin(), logits.end(), -kInfinity);
  EXPECT_EQ(row.Load(logits), Condition::kEmpty);
  logits[3] = std::nanf("");
  EXPECT_EQ(row.Load(logits), Condition::kNonFinite);
}

TEST_P(RowDistributionTest, ArgmaxTakesTheLowestIdAmongEquals) {
  RowDistribution row = Make(300);
  std::vector<float> logits(300, 0.0f);
  logits[130] = logits[131] = logits[290] = 4.0f;
  row.Load(logits);
  EXPECT_EQ(row.Argmax(), 130);
  for (const auto& [name, values] : TestRows(300, 11)) {
    std::vector<float> copy = values;
    row.Load(copy);
    EXPECT_EQ(row.Argmax(), std::max_element(values.begin(), values.end()) - values.begin()) << name;
  }
}

TEST_P(RowDistributionTest, LogSumAndBestAgreeWithASort) {
  for (const std::size_t size : {1u, 64u, 1000u, 20000u}) {
    RowDistribution row = Make(size);
    for (auto& [name, logits] : TestRows(size, 21)) {
      row.Load(logits);
      EXPECT_NEAR(row.LogSum(), std::log(testing::Sum(NaiveWeights(logits, 1.0))), 1e-6) << name;
      const std::vector<TokenId> order = NaiveOrder<float>(logits);
      std::vector<TokenLogprob> best;
      for (const std::int32_t count : {0, 1, 2, 20, 200}) {
        row.Best(count, &best);
        ASSERT_EQ(best.size(), std::min(order.size(), static_cast<std::size_t>(count))) << name;
        for (std::size_t i = 0; i < best.size(); ++i) {
          EXPECT_EQ(best[i].token, order[i]) << name;
          EXPECT_EQ(best[i].logprob, logits[static_cast<std::size_t>(order[i])]) << name;
        }
      }
    }
  }
}

TEST_P(RowDistributionTest, TopKKeepsExactlyTheBest) {
  for (const std::size_t size : {1u, 65u, 1000u, 20000u}) {
    RowDistribution row = Make(size);
    for (auto& [name, logits] : TestRows(size, 31)) {
      SCOPED_TRACE(name + " of " + std::to_string(size));
      const std::vector<TokenId> order = NaiveOrder<float>(logits);
      for (const std::size_t k : {2u, 5u, 50u, 311u, 999u, 15000u, 1000000u}) {
        row.Load(logits);
        row.SetTemperature(0.7f);
        row.KeepTopK(static_cast<std::int32_t>(k));
        EXPECT_EQ(ExpectPrefix(row, logits, order), std::min(k, order.size()));
      }
    }
  }
}

TEST_P(RowDistributionTest, TopPKeepsTheNucleus) {
  for (const std::size_t size : {1u, 65u, 1000u, 20000u}) {
    RowDistribution row = Make(size);
    for (auto& [name, logits] : TestRows(size, 41)) {
      const std::vector<TokenId> order = NaiveOrder<float>(logits);
      for (const float temperature : {0.3f, 1.0f, 2.5f}) {
        const Weights weights = NaiveWeights(logits, static_cast<double>(temperature));
        for (const float p : {1e-6f, 0.1f, 0.5f, 0.9f, 0.95f, 0.999f}) {
          SCOPED_TRACE(name + " of " + std::to_string(size) + " p " + std::to_string(p));
          row.Load(logits);
          row.SetTemperature(temperature);
          row.KeepTopP(p);
          const std::size_t kept = ExpectPrefix(row, logits, order);
          const double share = static_cast<double>(p);
          EXPECT_GE(kept, NaivePrefix(order, weights, share - kSlack));
          EXPECT_LE(kept, NaivePrefix(order, weights, share + kSlack));
        }
      }
    }
  }
}

TEST_P(RowDistributionTest, TopPActsOnWhatTopKLeft) {
  RowDistribution row = Make(5000);
  for (auto& [name, logits] : TestRows(5000, 51)) {
    const std::vector<TokenId> order = NaiveOrder<float>(logits);
    for (const std::size_t k : {2u, 40u, 700u}) {
      SCOPED_TRACE(name + " k " + std::to_string(k));
      Weights weights = NaiveWeights(logits, 1.5);
      testing::KeepPrefix(order, k, &weights);
      row.Load(logits);
      row.SetTemperature(1.5f);
      row.KeepTopK(static_cast<std::int32_t>(k));
      row.KeepTopP(0.8f);
      const std::size_t kept = ExpectPrefix(row, logits, order);
      EXPECT_GE(kept, NaivePrefix(order, weights, 0.8 - kSlack));
      EXPECT_LE(kept, NaivePrefix(order, weights, 0.8 + kSlack));
    }
  }
}

TEST_P(RowDistributionTest, MinPComparesWithTheBest) {
  RowDistribution row = Make(3000);
  for (auto& [name, logits] : TestRows(3000, 61)) {
    const Weights weights = NaiveWeights(logits, 0.8);
    for (const double min_p : {1e-4, 0.05, 0.5, 1.0}) {
      SCOPED_TRACE(name + " min_p " + std::to_string(min_p));
      row.Load(logits);
      row.SetTemperature(0.8f);
      row.KeepMinP(static_cast<float>(min_p));
      const double threshold = static_cast<double>(static_cast<float>(min_p));
      for (std::size_t i = 0; i < logits.size(); ++i) {
        if (std::abs(weights[i] / threshold - 1.0) < 1e-5 && weights[i] != 1.0) continue;  // rounding decides
        EXPECT_EQ(row.Keeps(static_cast<TokenId>(i)), weights[i] >= threshold) << i;
      }
    }
  }
}

// Two tokens at the same distance to the entropy on either side differ by rounding only, so the kept set is
// judged by its own properties: nothing nearer is left out, and it has just the mass it needs.
void ExpectTypicalSet(const std::vector<float>& filtered, const Weights& weights, double p) {
  const std::vector<double> keys = NaiveTypicality(weights);
  double kept_mass = 0.0;
  double worst_kept = 0.0;
  double worst_weight = 0.0;
  double best_left = -kInfinity;
  for (std::size_t i = 0; i < filtered.size(); ++i) {
    if (filtered[i] > -kInfinity) {
      kept_mass += weights[i];
      if (keys[i] <= worst_kept) worst_weight = weights[i];
      worst_kept = std::min(worst_kept, keys[i]);
    } else {
      best_left = std::max(best_left, keys[i]);
    }
  }
  const double tolerance = 1e-5 * (1.0 + std::abs(worst_kept));
  EXPECT_GE(worst_kept, best_left - tolerance);
  const double total = testing::Sum(weights);
  EXPECT_GE(kept_mass, (p - kSlack) * total);
  EXPECT_LE(kept_mass - worst_weight, (p + kSlack) * total);
}

TEST_P(RowDistributionTest, TypicalKeepsWhatIsNearestToTheEntropy) {
  for (const std::size_t size : {5u, 1000u, 20000u}) {
    RowDistribution row = Make(size);
    for (const auto& [name, logits] : TestRows(size, 71)) {
      for (const float p : {0.2f, 0.6f, 0.95f}) {
        SCOPED_TRACE(name + " of " + std::to_string(size) + " p " + std::to_string(p));
        std::vector<float> filtered = logits;
        row.Load(filtered);
        row.SetTemperature(1.3f);
        row.KeepTypical(p);
        ExpectTypicalSet(filtered, NaiveWeights(logits, 1.3), static_cast<double>(p));
      }
    }
  }
}

// By hand: probabilities 1/2, 1/4, 1/8, 1/8 have entropy 1.75 bits; their information contents are 1, 2, 3
// and 3 bits, at distances 0.75, 0.25, 1.25 and 1.25.
TEST_P(RowDistributionTest, TypicalByHand) {
  const auto kept = [&](float p) {
    const float ln2 = static_cast<float>(std::log(2.0));
    std::vector<float> logits = {3 * ln2, 2 * ln2, ln2, ln2};
    RowDistribution row = Make(4);
    row.Load(logits);
    row.SetTemperature(1.0f);
    row.KeepTypical(p);
    std::vector<int> ids;
    for (int i = 0; i < 4; ++i) {
      if (logits[static_cast<std::size_t>(i)] > -kInfinity) ids.push_back(i);
    }
    return ids;
  };
  EXPECT_EQ(kept(0.2f), (std::vector<int>{1}));
  EXPECT_EQ(kept(0.3f), (std::vector<int>{0, 1}));
  EXPECT_EQ(kept(0.8f), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(kept(0.9f), (std::vector<int>{0, 1, 2, 3}));
}

// Chi-square of `draws` draws against the reference's probabilities. The bound is five deviations above the
// mean, with fixed seeds.
void ExpectDistribution(RowDistribution& row, const Weights& weights, int draws) {
  std::map<TokenId, int> seen;
  for (int i = 0; i < draws; ++i) ++seen[row.Draw(1234, static_cast<std::uint64_t>(i))];
  const double total = testing::Sum(weights);
  double chi_square = 0.0;
  int cells = 0;
  double rare_expected = 0.0;
  double rare_seen = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = weights[i] / total * draws;
    const auto found = seen.find(static_cast<TokenId>(i));
    const double observed = found == seen.end() ? 0.0 : found->second;
    if (weights[i] == 0.0) {
      EXPECT_EQ(observed, 0.0) << "token " << i << " was filtered out";
    } else if (expected < 8.0) {
      rare_expected += expected;
      rare_seen += observed;
    } else {
      chi_square += (observed - expected) * (observed - expected) / expected;
      ++cells;
    }
  }
  if (rare_expected >= 8.0) {
    chi_square += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
    ++cells;
  }
  const double degrees = std::max(cells - 1, 0);
  EXPECT_LE(chi_square, degrees + 5.0 * std::sqrt(2.0 * degrees) + 1e-9) << cells << " cells";
}

TEST_P(RowDistributionTest, DrawsFollowTheDistribution) {
  RowDistribution row = Make(300);
  for (auto& [name, logits] : TestRows(300, 81)) {
    SCOPED_TRACE(name);
    row.Load(logits);
    row.SetTemperature(0.9f);
    Weights weights = NaiveWeights(logits, 0.9);
    for (double& w : weights) w = w < 1e-37 ? 0.0 : w;
    ExpectDistribution(row, weights, 30000);
  }
}

TEST_P(RowDistributionTest, DrawsFollowTheFilteredDistribution) {
  RowDistribution row = Make(300);
  for (auto& [name, logits] : TestRows(300, 91)) {
    SCOPED_TRACE(name);
    const std::vector<TokenId> order = NaiveOrder<float>(logits);
    row.Load(logits);
    row.SetTemperature(1.7f);
    row.KeepTopK(60);
    row.KeepTopP(0.87f);
    row.KeepMinP(0.001f);
    Weights weights = NaiveWeights(logits, 1.7);
    testing::KeepPrefix(order, 60, &weights);
    testing::KeepPrefix(order, NaivePrefix(order, weights, static_cast<double>(0.87f)), &weights);
    for (double& w : weights) w = w < 0.001 ? 0.0 : w;
    ExpectDistribution(row, weights, 30000);
  }
}

// Large enough that most blocks are known by their bounds only.
TEST_P(RowDistributionTest, DrawsOfManyBlocksFollowTheDistribution) {
  RowDistribution row = Make(8000);
  for (auto& [name, logits] : TestRows(8000, 95)) {
    SCOPED_TRACE(name);
    row.Load(logits);
    Weights weights = NaiveWeights(logits, 1.0);
    for (double& w : weights) w = w < 1e-37 ? 0.0 : w;
    ExpectDistribution(row, weights, 20000);
  }
}

TEST_P(RowDistributionTest, DrawsOfALargeFlatNucleus) {
  RowDistribution row = Make(20000);
  std::vector<float> logits = testing::NormalRow(20000, 1.0f, 101);
  row.Load(logits);
  row.SetTemperature(1.0f);
  row.KeepTopP(0.9f);
  const std::vector<TokenId> order = NaiveOrder<float>(logits);
  Weights weights = NaiveWeights(logits, 1.0);
  const std::size_t kept = CountKept(row, logits);
  EXPECT_GT(kept, 5000u);
  testing::KeepPrefix(order, kept, &weights);
  ExpectDistribution(row, weights, 100000);
}

TEST_P(RowDistributionTest, DrawIsAFunctionOfSeedAndPosition) {
  std::vector<float> logits = testing::NormalRow(1000, 2.0f, 7);
  RowDistribution one = Make(1000);
  RowDistribution other = Make(4000);
  one.Load(logits);
  std::map<TokenId, int> distinct;
  for (std::uint64_t position = 0; position < 50; ++position) {
    const TokenId token = one.Draw(9, position);
    // A workspace with another past gives the same.
    std::vector<float> noise = testing::NormalRow(4000, 3.0f, static_cast<unsigned>(position));
    other.Load(noise);
    other.SetTemperature(2.0f);
    other.KeepTopP(0.9f);
    other.Load(logits);
    EXPECT_EQ(other.Draw(9, position), token);
    ++distinct[token];
  }
  EXPECT_GT(distinct.size(), 10u);
}

INSTANTIATE_TEST_SUITE_P(AllVariants, RowDistributionTest, ::testing::ValuesIn(Variants()),
                         [](const auto& parameter) { return std::string(parameter.param->name); });

}  // namespace
}  // namespace skipjack
