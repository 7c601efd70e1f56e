// Block formats against values computed by an independent decoder (tests/fixtures/blocks).
#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace skipjack {
namespace {

std::vector<char> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DequantizeTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    const std::string stem = std::string(SKIPJACK_FIXTURES "/blocks/") + std::string(Info(GetParam()).name);
    bytes_ = ReadFile(stem + ".bin");
    const std::vector<char> values = ReadFile(stem + ".f32");
    ASSERT_FALSE(bytes_.empty());
    ASSERT_FALSE(values.empty());
    expected_.resize(values.size() / sizeof(float));
    std::memcpy(expected_.data(), values.data(), values.size());
    ASSERT_EQ(RowBytes(GetParam(), static_cast<std::int64_t>(expected_.size())).value(),
              static_cast<std::int64_t>(bytes_.size()));
  }

  void ExpectExact(const std::vector<float>& got) const {
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      if (std::isnan(expected_[i])) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_EQ(got[i], expected_[i])
            << "value " << i;  // the fixtures allow 1e-6; this decoder needs none of it
      }
    }
  }

  std::vector<char> bytes_;
  std::vector<float> expected_;
};

TEST_P(DequantizeTest, EqualsTheReference) {
  std::vector<float> got(expected_.size(), -1234.5f);
  Dequantize(GetParam(), std::as_bytes(std::span(bytes_)), got);
  ExpectExact(got);
}

TEST_P(DequantizeTest, ReadsAtAnyAlignment) {
  for (std::size_t shift = 1; shift < 8; ++shift) {
    std::vector<std::byte> moved(bytes_.size() + shift);
    std::memcpy(moved.data() + shift, bytes_.data(), bytes_.size());
    std::vector<float> got(expected_.size());
    Dequantize(GetParam(), std::span(moved).subspan(shift), got);
    ExpectExact(got);
  }
}

TEST_P(DequantizeTest, EachBlockStandsAlone) {
  const auto elements = static_cast<std::size_t>(Info(GetParam()).block_elements);
  const auto size = static_cast<std::size_t>(Info(GetParam()).block_bytes);
  std::vector<float> got(expected_.size());
  for (std::size_t block = 0; block < bytes_.size() / size; ++block) {
    const std::vector<char> only(bytes_.begin() + static_cast<std::ptrdiff_t>(block * size),
                                 bytes_.begin() + static_cast<std::ptrdiff_t>((block + 1) * size));
    Dequantize(GetParam(), std::as_bytes(std::span(only)),
               std::span(got).subspan(block * elements, elements));
  }
  ExpectExact(got);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, DequantizeTest,
                         ::testing::Values(DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                                           DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,
                                           DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                                           DType::kIQ4_NL, DType::kIQ4_XS, DType::kTQ1_0, DType::kTQ2_0,
                                           DType::kMXFP4),
                         [](const auto& test) { return std::string(Info(test.param).name); });

TEST(DequantizeF32Test, CopiesBitsAtAnyAlignment) {
  const std::vector<float> values{1.0f, -0.0f, 3.5e-42f, 7e30f};
  std::vector<std::byte> bytes(sizeof(float) * values.size() + 1);
  std::memcpy(bytes.data() + 1, values.data(), sizeof(float) * values.size());
  std::vector<float> got(values.size());
  Dequantize(DType::kF32, std::span(bytes).subspan(1), got);
  EXPECT_EQ(std::memcmp(got.data(), values.data(), sizeof(float) * values.size()), 0);
}

TEST(DequantizeAllTest, EmptyInputIsFine) {
  Dequantize(DType::kF32, {}, {});
  Dequantize(DType::kQ4_K, {}, {});
}

TEST(DequantizeDeathTest, ATypeItDoesNotKnowAborts) {
  std::vector<float> out(256);
  const std::vector<std::byte> in(292);
  EXPECT_DEATH(Dequantize(DType::kQ8_K, in, out), "");
}

// Everything Info() calls decodable is covered above, so no type claims what Dequantize() lacks.
TEST(DequantizeAllTest, EveryDecodableTypeDecodes) {
  for (std::uint32_t value = 0; value < 64; ++value) {
    const auto type = DTypeFromGguf(value);
    if (!type || !Info(*type).can_dequantize) continue;
    const DTypeInfo& info = Info(*type);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(info.block_bytes));
    std::vector<float> out(static_cast<std::size_t>(info.block_elements), 1.0f);
    Dequantize(*type, zeros, out);
    for (float v : out) EXPECT_TRUE(std::isfinite(v)) << info.name;
  }
}

}  // namespace
}  // namespace skipjack
