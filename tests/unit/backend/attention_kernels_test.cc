// The attention and row-wise kernels of every level this machine has, against double precision and against
// themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/kv_geometry.h"
#include "base/types.h"
#include "kernels/cpu/float_kernels.h"
#include "tensor/dtype.h"

namespace skipjack {
namespace {

using kernels::IsaLevel;

enum class Cache { kF32, kF16, kBF16 };

// One key/value head's cache in blocks that are out of order, and queries over it.
class Problem {
 public:
  Problem(Cache cache, std::int32_t length, std::int32_t tokens, std::int32_t group, std::int32_t head_dim,
          std::int32_t block_tokens)
      : cache_(cache),
        geometry_{block_tokens, 1, 1, head_dim, cache == Cache::kF32 ? 4 : 2},
        length_(length),
        tokens_(tokens),
        group_(group) {
    const std::int32_t blocks = (length + block_tokens - 1) / block_tokens;
    // Slots beyond the sequence hold NaN: whoever lets them in is found out.
    pool_.resize(static_cast<std::size_t>(geometry_.block_bytes() * (blocks + 1)), std::byte{0xff});
    for (std::int32_t b = 0; b < blocks; ++b) table_.push_back(blocks - b);
    std::normal_distribution<float> normal;
    keys_.resize(static_cast<std::size_t>(length * head_dim));
    values_.resize(keys_.size());
    query_.resize(static_cast<std::size_t>(tokens * group * head_dim));
    for (float& value : query_) value = normal(random_) / std::sqrt(static_cast<float>(head_dim)) * 2.0f;
    for (std::int32_t t = 0; t < length; ++t) {
      for (std::int32_t d = 0; d < head_dim; ++d) {
        Key(t, d) = Write(KeyElement(t, d), true, t, normal(random_));
        Value(t, d) = Write(ValueElement(t, d), false, t, normal(random_));
      }
      for (std::int32_t d = head_dim; d < geometry_.value_stride(); ++d)
        Write(ValueElement(t, d), false, t, 0.0f);
    }
  }

  float& Key(std::int32_t t, std::int32_t d) {
    return keys_[static_cast<std::size_t>(t * geometry_.head_dim + d)];
  }
  float& Value(std::int32_t t, std::int32_t d) {
    return values_[static_cast<std::size_t>(t * geometry_.head_dim + d)];
  }

  // Stores to the cache and returns the value as the cache holds it.
  float Write(std::int64_t element, bool key, std::int32_t token, float value) {
    std::byte* head = pool_.data() + table_[static_cast<std::size_t>(token / geometry_.block_tokens)] *
                                         geometry_.block_bytes();
    head += key ? geometry_.KeyOffset(0, 0) : geometry_.ValueOffset(0, 0);
    if (cache_ == Cache::kF32) {
      std::memcpy(head + element * 4, &value, 4);
      return value;
    }
    const std::uint16_t bits = cache_ == Cache::kF16 ? FloatToHalf(value) : FloatToBFloat16(value);
    std::memcpy(head + element * 2, &bits, 2);
    return cache_ == Cache::kF16 ? HalfToFloat(bits) : BFloat16ToFloat(bits);
  }
  std::int64_t KeyElement(std::int32_t t, std::int32_t d) const {
    return geometry_.KeyElement(t % geometry_.block_tokens, d);
  }
  std::int64_t ValueElement(std::int32_t t, std::int32_t d) const {
    return geometry_.ValueElement(t % geometry_.block_tokens, d);
  }

  kernels::AttentionItem Item() {
    output_.assign(query_.size(), std::numeric_limits<float>::quiet_NaN());
    kernels::AttentionItem item;
    item.query = query_.data();
    item.query_stride = group_ * geometry_.head_dim;
    item.output = output_.data();
    item.output_stride = item.query_stride;
    item.tokens = tokens_;
    item.group = group_;
    item.head_dim = geometry_.head_dim;
    item.position = length_ - tokens_;
    item.keys = pool_.data() + geometry_.KeyOffset(0, 0);
    item.values = pool_.data() + geometry_.ValueOffset(0, 0);
    item.block_stride = geometry_.block_bytes();
    item.block_table = table_.data();
    item.block_tokens = geometry_.block_tokens;
    item.end_chunk = kernels::AttentionChunks(length_);
    return item;
  }

  void Attend(const kernels::AttentionKernels& table, const kernels::AttentionItem& item) {
    scratch_.resize(kernels::kAttentionScratchFloats + 16);
    float* aligned = scratch_.data();
    while (reinterpret_cast<std::uintptr_t>(aligned) % 64 != 0) ++aligned;
    const auto attend = cache_ == Cache::kF32   ? table.attend_f32
                        : cache_ == Cache::kF16 ? table.attend_f16
                                                : table.attend_bf16;
    attend(item, aligned);
    aligned_ = aligned;
  }

  std::vector<float> Whole(const kernels::AttentionKernels& table, kernels::StopSignal stop = {}) {
    kernels::AttentionItem item = Item();
    item.stop = stop;
    Attend(table, item);
    return output_;
  }

  // One token at a time.
  std::vector<float> TokenByToken(const kernels::AttentionKernels& table) {
    const kernels::AttentionItem all = Item();
    for (std::int32_t t = 0; t < tokens_; ++t) {
      kernels::AttentionItem one = all;
      one.query += t * all.query_stride;
      one.output += t * all.output_stride;
      one.tokens = 1;
      one.position += t;
      one.end_chunk = kernels::AttentionChunks(one.position + 1);
      Attend(table, one);
    }
    return output_;
  }

  // Chunks last to first, in pieces of `piece`, then merged.
  std::vector<float> Split(const kernels::AttentionKernels& table, std::int32_t piece) {
    kernels::AttentionItem item = Item();
    std::vector<float> partial(static_cast<std::size_t>(item.end_chunk * tokens_ * group_ *
                                                        kernels::PartialStride(geometry_.head_dim)));
    item.partial = partial.data();
    for (std::int32_t first = (item.end_chunk - 1) / piece * piece; first >= 0; first -= piece) {
      kernels::AttentionItem part = item;
      part.first_chunk = first;
      part.end_chunk = std::min(first + piece, item.end_chunk);
      Attend(table, part);
    }
    table.merge_partials(item, aligned_);
    return output_;
  }

  std::vector<double> Expected() {
    const std::int32_t dim = geometry_.head_dim;
    std::vector<double> out(query_.size());
    for (std::int32_t row = 0; row < tokens_ * group_; ++row) {
      const std::int32_t sees = length_ - tokens_ + row / group_ + 1;
      std::vector<double> weight(static_cast<std::size_t>(sees));
      for (std::int32_t t = 0; t < sees; ++t) {
        for (std::int32_t d = 0; d < dim; ++d) {
          weight[static_cast<std::size_t>(t)] +=
              double{query_[static_cast<std::size_t>(row * dim + d)]} * Key(t, d);
        }
      }
      const double most = *std::max_element(weight.begin(), weight.end());
      double sum = 0.0;
      for (double& w : weight) sum += w = std::exp(w - most);
      for (std::int32_t t = 0; t < sees; ++t) {
        for (std::int32_t d = 0; d < dim; ++d) {
          out[static_cast<std::size_t>(row * dim + d)] +=
              weight[static_cast<std::size_t>(t)] / sum * Value(t, d);
        }
      }
    }
    return out;
  }

 private:
  Cache cache_;
  KvGeometry geometry_;
  std::int32_t length_, tokens_, group_;
  std::mt19937 random_{42};
  std::vector<std::byte> pool_;
  std::vector<std::int32_t> table_;
  std::vector<float> keys_, values_, query_, output_, scratch_;
  float* aligned_ = nullptr;
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class KernelLevelTest : public testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    table_ = kernels::SelectFloatKernels(GetParam());
    if (table_ == nullptr) GTEST_SKIP() << "this machine has no " << kernels::IsaName(GetParam());
  }
  const kernels::FloatKernels* table_ = nullptr;
};

TEST_P(KernelLevelTest, AttentionStopsWhenAsked) {
  Problem problem(Cache::kF16, 700, 5, 3, 64, 16);
  const std::vector<float> expected = problem.Whole(table_->attention);
  const std::uint64_t asked = 5;
  EXPECT_TRUE(SameBits(problem.Whole(table_->attention, {&asked, 6}), expected));
  for (const float value : problem.Whole(table_->attention, {&asked, 5})) EXPECT_TRUE(std::isnan(value));
}

TEST_P(KernelLevelTest, AttentionIsRightAndItsBitsDependOnTheRowAlone) {
  struct Shape {
    std::int32_t length, tokens, group, head_dim, block_tokens;
  };
  const Shape shapes[] = {{1, 1, 1, 64, 16},    {16, 16, 1, 32, 16},  {17, 1, 3, 64, 16},
                          {100, 7, 2, 40, 32},  {256, 5, 4, 64, 16},  {257, 4, 3, 80, 16},
                          {700, 13, 3, 64, 16}, {530, 9, 8, 128, 64}, {1100, 2, 5, 24, 48},
                          {300, 60, 1, 2, 16},  {513, 3, 6, 256, 16}};
  for (const Cache cache : {Cache::kF32, Cache::kF16, Cache::kBF16}) {
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(testing::Message()
                   << "cache " << static_cast<int>(cache) << " length " << shape.length << " tokens "
                   << shape.tokens << " group " << shape.group << " dim " << shape.head_dim);
      Problem problem(cache, shape.length, shape.tokens, shape.group, shape.head_dim, shape.block_tokens);
      const std::vector<float> whole = problem.Whole(table_->attention);
      const std::vector<double> expected = problem.Expected();
      for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_NEAR(whole[i], expected[i], 5e-6) << i;
      EXPECT_TRUE(SameBits(whole, problem.TokenByToken(table_->attention)));
      EXPECT_TRUE(SameBits(whole, problem.Split(table_->attention, 1)));
      EXPECT_TRUE(SameBits(whole, problem.Split(table_->attention, 2)));
    }
  }
}

TEST_P(KernelLevelTest, ANanStaysInTheRowsThatSeeIt) {
  Problem problem(Cache::kF16, 400, 8, 2, 32, 16);
  const std::vector<float> clean = problem.Whole(table_->attention);
  // The key of the sixth query token: rows before it do not see it.
  problem.Write(problem.KeyElement(397, 5), true, 397, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> dirty = problem.Whole(table_->attention);
  const std::size_t first = 5 * 2 * 32;
  EXPECT_EQ(std::memcmp(clean.data(), dirty.data(), first * sizeof(float)), 0);
  for (std::size_t i = first; i < dirty.size(); ++i) ASSERT_TRUE(std::isnan(dirty[i])) << i;
}

TEST_P(KernelLevelTest, RmsNorm) {
  for (const int count : {1, 7, 16, 100, 576, 4099}) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(count)), weight(x.size()), y(x.size());
    double squares = 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = normal(random) * 10.0f;
      weight[i] = normal(random);
      squares += double{x[i]} * x[i];
    }
    table_->elementwise.rms_norm(x.data(), weight.data(), count, 1e-5f, y.data());
    const double inverse = 1.0 / std::sqrt(squares / count + 1e-5);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(y[i], x[i] * inverse * weight[i], 1e-6 * std::abs(y[i]) + 1e-7);
  }
}

TEST_P(KernelLevelTest, RotatePairs) {
  const float x[] = {1.0f, 0.0f, 0.0f, 2.0f, 3.0f, 4.0f};
  const float table[] = {0.0f, 1.0f, 0.0f, 1.0f, 1.0f, 0.0f};  // a quarter turn, another, none
  float y[6] = {};
  table_->elementwise.rotate_pairs(x, table, 3, 2.0f, y);
  const float expected[] = {0.0f, 2.0f, -4.0f, 0.0f, 6.0f, 8.0f};
  for (int i = 0; i < 6; ++i) EXPECT_EQ(y[i], expected[i]);
}

TEST_P(KernelLevelTest, ConversionsRoundAsTheScalarOnesDo) {
  std::mt19937 random(9);
  std::vector<float> x;
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    float value = 0.0f;
    std::memcpy(&value, &bits, sizeof(value));
    x.push_back(i % 2 == 0 ? value : std::ldexp(value == value ? std::fmod(value, 2.0f) : 1.0f, i % 40 - 30));
  }
  x.insert(x.end(), {0.0f, -0.0f, 65504.0f, 65519.9f, 65520.0f, 1e30f, 5.9604645e-8f, 2.9802322e-8f,
                     2.98023259e-8f, -6.1e-5f});
  std::vector<std::uint16_t> half(x.size()), brain(x.size());
  table_->elementwise.to_half(x.data(), static_cast<int>(x.size()), half.data());
  table_->elementwise.to_bfloat16(x.data(), static_cast<int>(x.size()), brain.data());
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(HalfToFloat(half[i])));
      EXPECT_TRUE(std::isnan(BFloat16ToFloat(brain[i])));
      continue;
    }
    ASSERT_EQ(half[i], FloatToHalf(x[i])) << x[i];
    ASSERT_EQ(brain[i], FloatToBFloat16(x[i])) << x[i];
  }
}

TEST_P(KernelLevelTest, PassesItsOwnSelfTest) {
  EXPECT_EQ(kernels::FloatSelfTest(*kernels::SelectFloatKernels(GetParam())), "");
}

INSTANTIATE_TEST_SUITE_P(Levels, KernelLevelTest,
                         testing::Values(IsaLevel::kGeneric, IsaLevel::kAvx2, IsaLevel::kAvx512),
                         [](const auto& test) { return kernels::IsaName(test.param); });

}  // namespace
}  // namespace skipjack
