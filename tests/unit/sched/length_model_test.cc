#include "sched/length_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace skipjack {
namespace {

// Gittins by its definition, over a list of equally likely lengths: the least expected work per completion
// for an answer of `age` tokens that goes on.
// Stops at which fewer than 40 answers end are left out: what a sample says of them is chance.
double Reference(const std::vector<std::int32_t>& lengths, std::int32_t age, double work = 0) {
  std::vector<std::int32_t> rest;
  for (const std::int32_t length : lengths) {
    if (length > age) rest.push_back(length - age);
  }
  double best = std::numeric_limits<double>::infinity();
  for (const std::int32_t stop : rest) {
    double ends = 0;
    double spent = 0;
    for (const std::int32_t length : rest) {
      ends += length <= stop ? 1 : 0;
      spent += std::min(length, stop);
    }
    if (ends < 40) continue;
    best = std::min(best, (work * static_cast<double>(rest.size()) + spent) / ends);
  }
  return best;
}

TEST(LengthModel, BucketsCoverAllLengthsInOrder) {
  std::size_t last = 0;
  for (std::int32_t tokens = 1; tokens < 300000; ++tokens) {
    const std::size_t bucket = LengthModel::BucketOf(tokens);
    ASSERT_TRUE(bucket == last || bucket == last + 1) << tokens;
    ASSERT_LE(LengthModel::FirstOf(bucket), tokens);
    ASSERT_GT(LengthModel::FirstOf(bucket + 1), tokens);
    last = bucket;
  }
  EXPECT_EQ(LengthModel::BucketOf(0), 0u);
  LengthModel::BucketOf(std::numeric_limits<std::int32_t>::max());
}

// Without answers the hazard is 1/age: the more was generated, the later its turn.
TEST(LengthModel, WithoutHistoryOrderIsByAttainedService) {
  LengthModel model;
  const LengthModel::ClassId id = model.Classify("a", 1000, 100);
  EXPECT_FALSE(model.informed());
  double before = 0;
  for (const std::int32_t generated : {0, 2, 10, 50, 300, 900}) {
    EXPECT_GT(model.Rank(id, generated), before);
    before = model.Rank(id, generated);
  }
}

// Half of the answers have 10 tokens, half 1,000. A newcomer is worth trying for 10 tokens: 20 tokens of work
// for each completion. Once it has 10, 990 more are certain.
TEST(LengthModel, TwoPointsByHand) {
  LengthModel model;
  const LengthModel::ClassId id = model.Classify("", 2000, 100);
  for (int i = 0; i < 3000; ++i) model.Observe(id, i % 2 == 0 ? 10 : 1000);
  EXPECT_NEAR(model.Rank(id, 0), 20, 1);
  EXPECT_NEAR(model.Rank(id, 10), 990, 50);
  EXPECT_NEAR(model.Rank(id, 800), 200, 40);
  EXPECT_NEAR(model.ExpectedLength(id, 0), 505, 30);
  EXPECT_NEAR(model.ExpectedLength(id, 500), 1000, 60);
  // A prompt worth 100 tokens must be computed first. Trying for 10 tokens: 110 tokens of work for half a
  // completion, less than the 605 that running to the end takes on average. With 2,000 it is the other way
  // round.
  EXPECT_NEAR(model.RankAfter(id, 0, 100), 220, 8);
  EXPECT_NEAR(model.RankAfter(id, 0, 2000), 2505, 80);
}

TEST(LengthModel, RanksEqualTheDefinitionOfGittins) {
  std::mt19937_64 random(7);
  std::vector<std::int32_t> lengths;
  for (int i = 0; i < 4000; ++i) {  // log-normal around 150
    const double u = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(random() >> 11) * 0x1p-53;
    const double normal = std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
    lengths.push_back(std::clamp(static_cast<std::int32_t>(150 * std::exp(1.2 * normal)), 1, 2048));
  }
  LengthModel model;
  const LengthModel::ClassId id = model.Classify("", 2048, 100);
  for (const std::int32_t length : lengths) model.Observe(id, length);
  for (const std::int32_t age : {0, 20, 63, 127, 255, 511, 1023}) {
    const double expected = Reference(lengths, age);
    EXPECT_NEAR(model.Rank(id, age), expected, 0.12 * expected) << age;
    EXPECT_NEAR(model.RankAfter(id, age, 50), Reference(lengths, age, 50),
                0.12 * Reference(lengths, age, 50));
  }
}

TEST(LengthModel, TenantsAreLearntApartAndNewOnesLeanOnTheRest) {
  LengthModel model;
  for (int i = 0; i < 500; ++i) {
    model.Observe(model.Classify("short", 1024, 100), 10 + i % 5);
    model.Observe(model.Classify("long", 1024, 100), 800 + i % 50);
  }
  const double brief = model.ExpectedLength(model.Classify("short", 1024, 100), 0);
  const double lengthy = model.ExpectedLength(model.Classify("long", 1024, 100), 0);
  const double unknown = model.ExpectedLength(model.Classify("new", 1024, 100), 0);
  EXPECT_LT(brief, 60);
  EXPECT_GT(lengthy, 750);
  EXPECT_NEAR(unknown, 420, 60);
}

TEST(LengthModel, OldAnswersFade) {
  LengthModel model;
  for (int i = 0; i < 10000; ++i) model.Observe(model.Classify("", 1024, 100), 20);
  for (int i = 0; i < 40000; ++i) model.Observe(model.Classify("", 1024, 100), 600);
  EXPECT_GT(model.ExpectedLength(model.Classify("", 1024, 100), 0), 570);
}

TEST(LengthModel, InventedTenantsCostNoMemory) {
  LengthModel model;
  for (int i = 0; i < 20000; ++i) {
    model.Observe(model.Classify("tenant " + std::to_string(i), 100, 100), 10);
  }
  EXPECT_LE(model.classes(), LengthModel::kMaxClasses);
  EXPECT_NEAR(model.ExpectedLength(model.Classify("one more", 100, 100), 0), 10, 2);
}

}  // namespace
}  // namespace skipjack
