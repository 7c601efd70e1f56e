// What linear does with its sums: bias, residual, SwiGLU, partial panels, unaligned outputs; and values at
// the limits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/linear.h"
#include "tests/unit/kernels/test_support.h"

namespace skipjack::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class LinearEpilogue : public testing::TestWithParam<Level> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }

  TestActivations Activate(const TestMatrix& matrix, std::int64_t rows, std::vector<float> values) const {
    return {table(), table().ActivationFor(matrix.packed().format), rows, matrix.packed().columns,
            std::move(values)};
  }

  LinearArgs Args(const TestMatrix& matrix, const TestActivations& x, int rows, float* out) const {
    LinearArgs args;
    args.weights = &matrix.packed();
    args.activations = x.view();
    args.rows = rows;
    args.panel_count = matrix.packed().panels();
    args.out = out;
    args.out_stride = matrix.packed().rows;
    return args;
  }

  std::vector<float> Product(const TestMatrix& matrix, const TestActivations& x, int rows) const {
    std::vector<float> out(static_cast<std::size_t>(rows * matrix.packed().rows));
    table().linear(Args(matrix, x, rows, out.data()));
    return out;
  }
};

// A raised signal leaves the output alone; one that is meant for another step changes nothing.
TEST_P(LinearEpilogue, StopsWhenAsked) {
  const TestMatrix matrix(SourceType::kQ4_1, Precision::kInt8, 37, 800);
  const TestActivations x = Activate(matrix, 70, RandomFloats(70 * 800, 1));
  const auto expected = Product(matrix, x, 70);
  const std::uint64_t asked = 5;
  for (const bool gated : {false, true}) {
    std::vector<float> out(expected.size(), -1.0f);
    LinearArgs args = Args(matrix, x, 70, out.data());
    if (gated) {
      args.up = &matrix.packed();
      args.epilogue = Epilogue::kSwiGlu;
    }
    args.stop = {&asked, 5};
    table().linear(args);
    EXPECT_EQ(out, std::vector<float>(expected.size(), -1.0f));
  }
  std::vector<float> out(expected.size(), -1.0f);
  LinearArgs args = Args(matrix, x, 70, out.data());
  args.stop = {&asked, 6};
  table().linear(args);
  EXPECT_EQ(out, expected);
}

TEST_P(LinearEpilogue, AddsBiasAndResidual) {
  const TestMatrix matrix(SourceType::kQ4_1, Precision::kInt8, 21, 96);
  const TestActivations x = Activate(matrix, 5, RandomFloats(5 * 96, 1));
  const auto plain = Product(matrix, x, 5);
  const auto bias = RandomFloats(21, 2);
  auto residual = RandomFloats(plain.size(), 3);
  const auto before = residual;
  LinearArgs args = Args(matrix, x, 5, residual.data());
  args.bias = bias.data();
  args.epilogue = Epilogue::kAdd;
  table().linear(args);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const float y = plain[i] + bias[i % 21];
    EXPECT_EQ(residual[i], before[i] + y) << i;
  }
}

TEST_P(LinearEpilogue, SwiGluMatchesTheFormula) {
  const TestMatrix gate(SourceType::kQ4_1, Precision::kInt8, 37, 64, Fill::kRandom, 1);
  const TestMatrix up(SourceType::kQ8_0, Precision::kF32, 37, 64, Fill::kRandom, 2);
  const TestMatrix gate_f32(SourceType::kQ4_1, Precision::kF32, 37, 64, Fill::kRandom, 1);
  const TestActivations x = Activate(gate_f32, 9, RandomFloats(9 * 64, 4, 3.0f));
  const auto g = Product(gate_f32, x, 9);
  const auto u = Product(up, x, 9);
  std::vector<float> out(g.size());
  LinearArgs args = Args(gate_f32, x, 9, out.data());
  args.up = &up.packed();
  args.epilogue = Epilogue::kSwiGlu;
  table().linear(args);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double z = g[i];
    const double want = z / (1.0 + std::exp(-z)) * static_cast<double>(u[i]);
    EXPECT_NEAR(out[i], want, 1e-6 * std::fabs(want) + 1e-12) << "gate " << z;
  }
}

// Gate values that the product cannot be made to give at will come in through a one-column float matrix.
TEST_P(LinearEpilogue, SiluHoldsOverTheWholeRange) {
  const TestMatrix one(SourceType::kF32, Precision::kF32, 1, 1, Fill::kLargestCodes);  // the weight 1
  std::vector<float> values;
  for (float z = -120.0f; z <= 120.0f; z += 0.37f) values.push_back(z);
  values.insert(values.end(), {0.0f, -0.0f, 1e-30f, -1e15f, 1e15f, kNan});
  const int rows = static_cast<int>(values.size());
  const TestActivations x = Activate(one, rows, values);
  std::vector<float> out(values.size());
  // silu(z) * z, as the gate is the up projection too.
  LinearArgs args = Args(one, x, rows, out.data());
  args.up = &one.packed();
  args.epilogue = Epilogue::kSwiGlu;
  table().linear(args);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double z = values[i];
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(out[i]));
      continue;
    }
    const double want = z / (1.0 + std::exp(-z)) * z;
    EXPECT_NEAR(out[i], want, 2e-6 * std::fabs(want) + 1e-7) << z;
  }
}

TEST_P(LinearEpilogue, WritesNothingBesideItsColumns) {
  const TestMatrix matrix(SourceType::kQ8_0, Precision::kInt8, 35, 64);
  const TestActivations x = Activate(matrix, 3, RandomFloats(3 * 64, 1));
  const auto plain = Product(matrix, x, 3);
  constexpr std::size_t kStride = 41;
  std::vector<float> out(1 + 3 * kStride, kNan);  // starts at an odd address, with gaps between rows
  LinearArgs args = Args(matrix, x, 3, out.data() + 1);
  args.out_stride = kStride;
  args.first_panel = 1;
  args.panel_count = 2;
  table().linear(args);
  for (std::size_t m = 0; m < 3; ++m) {
    for (std::size_t n = 0; n < kStride; ++n) {
      const float got = out[1 + m * kStride + n];
      if (n >= 16 && n < 35) {
        EXPECT_EQ(got, plain[m * 35 + n]);
      } else {
        EXPECT_TRUE(std::isnan(got)) << m << " " << n;
      }
    }
  }
  EXPECT_TRUE(std::isnan(out[0]));
}

struct Limit {
  SourceType type;
  Precision precision;
};
const std::vector<Limit>& LimitTypes() {
  static const std::vector<Limit> types = [] {
    std::vector<Limit> list;
    for (SourceType type : AllSourceTypes()) {
      list.push_back({type, Precision::kInt8});
      if (SourceBlockElements(type) == 1) list.push_back({type, Precision::kF32});
    }
    return list;
  }();
  return types;
}

// The sums that come closest to the limits of 16-bit arithmetic: all codes at an end, all activations at
// +-127.
TEST_P(LinearEpilogue, LargestCodesAndActivationsDoNotSaturate) {
  for (const Limit& limit : LimitTypes()) {
    for (Fill fill : {Fill::kLargestCodes, Fill::kSmallestCodes}) {
      const TestMatrix matrix(limit.type, limit.precision, 16, 512, fill);
      for (float sign : {1.0f, -1.0f}) {
        for (int period : {1, 2, 4, 512}) {  // alternating signs in several rhythms
          std::vector<float> values(512);
          for (std::size_t k = 0; k < 512; ++k)
            values[k] = (k / static_cast<std::size_t>(period)) % 2 == 0 ? sign : -sign;
          const TestActivations x = Activate(matrix, 1, values);
          const auto out = Product(matrix, x, 1);
          for (std::int64_t n = 0; n < 16; ++n) {
            double want = 0.0;
            double magnitude = 0.0;  // with the codes' zero points, whose products cancel
            for (std::int64_t k = 0; k < 512; ++k) {
              want += matrix.Value(n, k) * x.Value(0, k);
              magnitude += (std::fabs(matrix.Value(n, k)) + 1.0) * std::fabs(x.Value(0, k));
            }
            ASSERT_NEAR(out[static_cast<std::size_t>(n)], want, 2e-6 * magnitude)
                << TypeName(limit.type) << " period " << period;
          }
        }
      }
    }
  }
}

TEST_P(LinearEpilogue, ZeroActivationsGiveZero) {
  for (const Limit& limit : LimitTypes()) {
    const TestMatrix matrix(limit.type, limit.precision, 17, 256);
    for (float y : Product(matrix, Activate(matrix, 3, std::vector<float>(3 * 256, 0.0f)), 3))
      EXPECT_EQ(y, 0.0f);
  }
}

TEST_P(LinearEpilogue, NonFiniteActivationsSpoilTheirRowOnly) {
  constexpr int kRows = 11;
  for (const Limit& limit : LimitTypes()) {
    const TestMatrix matrix(limit.type, limit.precision, 33, 256);
    const auto values = RandomFloats(kRows * 256, 8);
    const auto good = Product(matrix, Activate(matrix, kRows, values), kRows);
    for (float bad :
         {kNan, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      auto spoiled = values;
      spoiled[4 * 256 + 100] = bad;
      const auto out = Product(matrix, Activate(matrix, kRows, spoiled), kRows);
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (i / 33 == 4) {
          EXPECT_FALSE(std::isfinite(out[i])) << TypeName(limit.type) << " column " << i % 33;
        } else {
          EXPECT_EQ(out[i], good[i]);
        }
      }
    }
  }
}

std::string LevelName(const testing::TestParamInfo<Level>& parameter) {
  return parameter.param.name;
}
INSTANTIATE_TEST_SUITE_P(AllLevels, LinearEpilogue, testing::ValuesIn(TestedLevels()), LevelName);

}  // namespace
}  // namespace skipjack::kernels
