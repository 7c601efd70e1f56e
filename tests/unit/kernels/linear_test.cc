#include "kernels/cpu/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

#include "tests/unit/kernels/test_support.h"

namespace skipjack::kernels {
namespace {

using Output = std::vector<float>;

LinearArgs MakeArgs(const TestMatrix& matrix, const TestActivations& x, std::int64_t rows, Output* out) {
  LinearArgs args;
  args.weights = &matrix.packed();
  args.activations = x.view();
  args.rows = static_cast<std::int32_t>(rows);
  args.panel_count = matrix.packed().panels();
  args.out = out->data();
  args.out_stride = matrix.packed().rows;
  return args;
}

Output Multiply(const Level& level, const TestMatrix& matrix, const TestActivations& x, std::int64_t rows) {
  Output out(static_cast<std::size_t>(rows * matrix.packed().rows), std::numeric_limits<float>::quiet_NaN());
  level.table->linear(MakeArgs(matrix, x, rows, &out));
  return out;
}

// Columns a type can have.
std::vector<std::int64_t> ColumnsOf(SourceType type) {
  if (SourceBlockElements(type) == 256) return {256, 768};
  if (SourceBlockElements(type) == 32) return {32, 64, 96, 576};
  return {1, 2, 31, 33, 257};
}

// Compares with double sums over the very numbers that the packed weights and activations stand for, so that
// only the rounding of float32 sums is left: relative to the sum of the products' absolute values.
void ExpectMatches(const TestMatrix& matrix, const TestActivations& x, std::int64_t rows, const Output& out,
                   double tolerance) {
  const PackedMatrix& w = matrix.packed();
  for (std::int64_t m = 0; m < rows; ++m) {
    for (std::int64_t n = 0; n < w.rows; ++n) {
      double want = 0.0;
      double magnitude = 0.0;
      for (std::int64_t k = 0; k < w.columns; ++k) {
        const double product = matrix.Value(n, k) * x.Value(m, k);
        want += product;
        magnitude += std::fabs(product);
      }
      const float got = out[static_cast<std::size_t>(m * w.rows + n)];
      ASSERT_NEAR(got, want, tolerance * magnitude + 1e-30) << "row " << m << " column " << n;
    }
  }
}

class LinearTypes : public testing::TestWithParam<std::tuple<Level, SourceType, Precision>> {
 protected:
  const Level& level() const { return std::get<0>(GetParam()); }
  SourceType type() const { return std::get<1>(GetParam()); }
  Precision precision() const { return std::get<2>(GetParam()); }
  ActivationKind Kind(const TestMatrix& matrix) const {
    return level().table->ActivationFor(matrix.packed().format);
  }
  // Sums with a minimum cancel: codes are unsigned, so their terms are up to a few times the result's.
  double tolerance() const { return precision() == Precision::kInt8 ? 1e-5 : 2e-6; }
};

TEST_P(LinearTypes, MatchesDoubleReferenceOverOddShapes) {
  for (std::int64_t columns : ColumnsOf(type())) {
    for (std::int64_t n : {1, 15, 16, 17}) {
      const TestMatrix matrix(type(), precision(), n, columns, Fill::kRandom,
                              static_cast<unsigned>(n + columns));
      for (std::int64_t rows : {1, 2, 3, 7, 8, 9, 13, 33}) {
        const TestActivations x(*level().table, Kind(matrix), rows, columns,
                                RandomFloats(static_cast<std::size_t>(rows * columns), 7));
        ExpectMatches(matrix, x, rows, Multiply(level(), matrix, x, rows), tolerance());
        if (HasFatalFailure()) FAIL() << n << " x " << columns << ", " << rows << " rows";
      }
    }
  }
}

TEST_P(LinearTypes, RowsDoNotDependOnTheirNumberNorOnThePanelsOfACall) {
  const std::int64_t columns = SourceBlockElements(type()) == 256 ? 512 : 352;  // more than one chunk
  const TestMatrix matrix(type(), precision(), 70, columns);
  constexpr std::int64_t kRows = 70;
  const TestActivations x(*level().table, Kind(matrix), kRows, columns,
                          RandomFloats(static_cast<std::size_t>(kRows * columns), 3));
  const Output all = Multiply(level(), matrix, x, kRows);
  for (std::int64_t rows = 1; rows < kRows; ++rows) {
    const Output some = Multiply(level(), matrix, x, rows);
    ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0) << rows << " rows";
  }
  Output split(all.size());
  LinearArgs args = MakeArgs(matrix, x, kRows, &split);
  for (auto [first, count] : {std::pair{0, 1}, {1, 3}, {4, 1}}) {
    args.first_panel = first;
    args.panel_count = count;
    level().table->linear(args);
  }
  EXPECT_EQ(std::memcmp(split.data(), all.data(), all.size() * sizeof(float)), 0);
}

std::string ParameterName(const testing::TestParamInfo<LinearTypes::ParamType>& parameter) {
  static constexpr const char* kNames[] = {"F32", "Bits16", "Int8"};
  const auto& [level, type, precision] = parameter.param;
  return level.name + "_" + TypeName(type) + "_" + kNames[static_cast<int>(precision)];
}

class LinearLongColumns : public LinearTypes {};

TEST_P(LinearLongColumns, MatchDoubleReference) {
  const TestMatrix matrix(type(), precision(), 160, 1536);
  const TestActivations x(*level().table, Kind(matrix), 2, 1536, RandomFloats(2 * 1536, 4));
  ExpectMatches(matrix, x, 2, Multiply(level(), matrix, x, 2), tolerance());
}

std::vector<Level> Levels() {
  return TestedLevels();
}

INSTANTIATE_TEST_SUITE_P(AllLevels, LinearTypes,
                         testing::Combine(testing::ValuesIn(Levels()), testing::ValuesIn(AllSourceTypes()),
                                          testing::Values(Precision::kF32, Precision::k16Bit,
                                                          Precision::kInt8)),
                         ParameterName);

INSTANTIATE_TEST_SUITE_P(AllLevels, LinearLongColumns,
                         testing::Combine(testing::ValuesIn(Levels()),
                                          testing::Values(SourceType::kQ4_0, SourceType::kQ4_1,
                                                          SourceType::kQ5_0, SourceType::kQ6_K,
                                                          SourceType::kQ8_0, SourceType::kIQ4_NL),
                                          testing::Values(Precision::kInt8)),
                         ParameterName);

}  // namespace
}  // namespace skipjack::kernels
