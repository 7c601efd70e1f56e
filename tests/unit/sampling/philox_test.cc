#include "sampling/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace skipjack {
namespace {

// Known answers published with the Random123 library (kat_vectors, philox4x32 10).
TEST(PhiloxTest, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, EveryArgumentMatters) {
  std::set<double> seen;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32, 1ull << 63}) {
    for (const std::uint64_t position : {0ull, 1ull, 1ull << 40}) {
      for (const std::uint32_t draw : {0u, 1u, 7u}) seen.insert(UniformAt(seed, position, draw));
    }
  }
  EXPECT_EQ(seen.size(), 4u * 3u * 3u);
}

TEST(PhiloxTest, UniformStaysInRangeAndIsBalanced) {
  double sum = 0.0;
  constexpr int kDraws = 100000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = UniformAt(42, static_cast<std::uint64_t>(i), 0);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * 0.2887 / std::sqrt(kDraws));
}

}  // namespace
}  // namespace skipjack
