// What a sequence computes depends on the model and its tokens alone: bit for bit the same alone, batched
// with others, in chunks, on any number of threads, in any blocks, behind a shared prefix.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/unit/backend/emulated_kernels.h"
#include "tests/unit/backend/runner_harness.h"
#include "tests/unit/backend/synthetic_model.h"

namespace skipjack {
namespace {

constexpr std::int32_t kLength = 610;  // three softmax chunks

std::vector<TokenId> RandomTokens(std::mt19937& random, std::int32_t count, std::int32_t vocabulary) {
  std::vector<TokenId> tokens;
  for (std::int32_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<std::uint32_t>(vocabulary)));
  }
  return tokens;
}

std::vector<TokenId> Part(const std::vector<TokenId>& tokens, std::size_t begin, std::size_t count) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

enum class Weights {
  kMixed,    // types that want different activations
  kKQuants,  // scales in two levels, stored minima, groups of 16 and 32
  kFloat,    // bfloat16 when packed in 16 bits
};

SyntheticConfig ConfigOf(Weights weights) {
  SyntheticConfig config{.hidden = 96, .heads = 6, .kv_heads = 2, .head_dim = 32};
  switch (weights) {
    case Weights::kMixed:
      config.types = {{"attn_q.weight", "Q4_0"},      {"attn_k.weight", "Q8_0"},   {"attn_v.weight", "F16"},
                      {"attn_output.weight", "Q8_0"}, {"ffn_gate.weight", "Q4_0"}, {"ffn_up.weight", "Q4_0"},
                      {"ffn_down.weight", "Q8_0"},    {"output.weight", "Q4_0"}};
      break;
    case Weights::kKQuants:
      config.hidden = config.feed_forward = 256;
      config.heads = 8;
      config.types = {{"attn_q.weight", "Q4_K"},      {"attn_k.weight", "Q6_K"},   {"attn_v.weight", "Q4_1"},
                      {"attn_output.weight", "Q4_1"}, {"ffn_gate.weight", "Q4_K"}, {"ffn_up.weight", "Q4_1"},
                      {"ffn_down.weight", "Q6_K"},    {"output.weight", "Q6_K"}};
      break;
    case Weights::kFloat:
      break;
  }
  return config;
}

struct Setup {
  std::string name;
  Weights weights;
  ComputeType compute;
  Isa isa = Isa::kAuto;
  bool emulated_pairs = false;  // bfloat16 products, emulated
};

class DeterminismTest : public testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    if (!IsThere(GetParam().isa)) GTEST_SKIP() << "this machine lacks the instruction set";
    model_ = MakeSyntheticModel(ConfigOf(GetParam().weights));
    ASSERT_NE(model_, nullptr);
  }

  std::unique_ptr<RunnerHarness> Make(int threads, std::int32_t block_tokens = 16) const {
    CpuRunnerOptions options;
    options.compute = GetParam().compute;
    options.isa = GetParam().isa;
    options.threads = threads;
    options.limits = SmallLimits(1024);
    options.limits.block_tokens = block_tokens;
    options.limits.kv_blocks = 6 * 1024 / block_tokens;
    options.limits.max_step_tokens = 700;
    options.limits.max_logits_rows = 700;
    CpuHost host;
    if (GetParam().emulated_pairs) host.kernels = &KernelsWithEmulatedBFloat16();
    return RunnerHarness::Create(model_->source, options, host);
  }

  // Logits of every position, from a single step of one thread.
  const Rows& Base() {
    if (base_.empty()) {
      std::mt19937 random(5);
      tokens_ = RandomTokens(random, kLength, model_->config.vocabulary);
      auto harness = Make(1);
      TestSequence sequence = harness->NewSequence(kLength);
      base_ = harness->Step({{&sequence, tokens_, kLength}});
    }
    return base_;
  }

  void ExpectRows(const Rows& rows, std::size_t first) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_TRUE(SameBits(rows[i], Base()[first + i])) << "position " << first + i;
    }
  }

  std::unique_ptr<SyntheticModel> model_;
  std::vector<TokenId> tokens_;
  Rows base_;
};

TEST_P(DeterminismTest, AnyNumberOfThreads) {
  ASSERT_EQ(Base().size(), static_cast<std::size_t>(kLength));
  for (const int threads : {2, 3, 7}) {
    SCOPED_TRACE(threads);
    auto harness = Make(threads);
    ASSERT_NE(harness, nullptr);
    TestSequence sequence = harness->NewSequence(kLength);
    ExpectRows(harness->Step({{&sequence, tokens_, kLength}}), 0);
  }
}

TEST_P(DeterminismTest, AnyBlockSizeAndTable) {
  ASSERT_FALSE(Base().empty());
  for (const std::int32_t block_tokens : {16, 32, 48, 256}) {
    SCOPED_TRACE(block_tokens);
    auto harness = Make(2, block_tokens);
    ASSERT_NE(harness, nullptr);
    TestSequence other = harness->NewSequence(100);
    TestSequence sequence = harness->NewSequence(kLength);
    ExpectRows(harness->Step({{&sequence, tokens_, kLength}}), 0);
  }
}

// Chunks of random sizes in steps shared with other sequences at random points of their own lives.
TEST_P(DeterminismTest, ChunkedAndBatchedWithOthers) {
  ASSERT_FALSE(Base().empty());
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto harness = Make(static_cast<int>(seed));
    ASSERT_NE(harness, nullptr);
    TestSequence sequence = harness->NewSequence(kLength);
    TestSequence others[3];
    for (TestSequence& other : others) other = harness->NewSequence(900);
    while (sequence.tokens.size() < tokens_.size()) {
      const std::size_t done = sequence.tokens.size();
      const std::size_t most = random() % 3 == 0 ? 1 : 90;  // single tokens are the decode case
      const std::size_t count = std::min<std::size_t>(1 + random() % most, tokens_.size() - done);
      std::vector<TestSlice> slices;
      for (TestSequence& other : others) {
        const auto extra = static_cast<std::int32_t>(random() % 30);
        if (extra == 0 || other.tokens.size() + static_cast<std::size_t>(extra) > 900) continue;
        slices.push_back({&other, RandomTokens(random, extra, model_->config.vocabulary), 0});
      }
      slices.insert(slices.begin() + static_cast<std::ptrdiff_t>(random() % (slices.size() + 1)),
                    TestSlice{&sequence, Part(tokens_, done, count), static_cast<std::int32_t>(count)});
      ExpectRows(harness->Step(std::move(slices)), done);
    }
  }
}

TEST_P(DeterminismTest, BehindASharedPrefix) {
  ASSERT_FALSE(Base().empty());
  auto harness = Make(2);
  ASSERT_NE(harness, nullptr);
  TestSequence first = harness->NewSequence(kLength);
  harness->Step({{&first, tokens_, 0}});
  for (const std::size_t shared : {16, 256, 320, 608}) {
    SCOPED_TRACE(shared);
    // The prefix's blocks are the first sequence's; what follows gets blocks of its own.
    TestSequence second = harness->NewSequence(kLength);
    const auto blocks = static_cast<std::ptrdiff_t>(shared / 16);
    std::copy(first.blocks.begin(), first.blocks.begin() + blocks, second.blocks.begin());
    second.tokens = Part(tokens_, 0, shared);
    const std::size_t rest = tokens_.size() - shared;
    ExpectRows(harness->Step({{&second, Part(tokens_, shared, rest), static_cast<std::int32_t>(rest)}}),
               shared);
  }
}

TEST_P(DeterminismTest, RunningAStepAgainGivesTheSame) {
  ASSERT_FALSE(Base().empty());
  auto harness = Make(2);
  ASSERT_NE(harness, nullptr);
  TestSequence sequence = harness->NewSequence(kLength);
  harness->Step({{&sequence, Part(tokens_, 0, 300), 0}});
  for (int again = 0; again < 3; ++again) {
    sequence.tokens.resize(300);
    ExpectRows(harness->Step({{&sequence, Part(tokens_, 300, 40), 40}}), 300);
  }
}

std::string NameOf(const testing::TestParamInfo<Setup>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(
    Computes, DeterminismTest,
    testing::Values(Setup{"f32", Weights::kMixed, ComputeType::kF32},
                    Setup{"half", Weights::kMixed, ComputeType::kBF16},
                    Setup{"bf16", Weights::kFloat, ComputeType::kBF16},
                    Setup{"bf16_avx512", Weights::kFloat, ComputeType::kBF16, Isa::kAvx512},
                    Setup{"bf16_emulated_pairs", Weights::kFloat, ComputeType::kBF16, Isa::kAuto, true},
                    Setup{"int8_generic", Weights::kMixed, ComputeType::kInt8, Isa::kGeneric},
                    Setup{"int8_avx2", Weights::kMixed, ComputeType::kInt8, Isa::kAvx2},
                    Setup{"int8_avx512", Weights::kMixed, ComputeType::kInt8, Isa::kAvx512},
                    Setup{"k_quants_avx2", Weights::kKQuants, ComputeType::kInt8, Isa::kAvx2},
                    Setup{"k_quants_avx512", Weights::kKQuants, ComputeType::kInt8, Isa::kAvx512}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(Long, DeterminismTest,
                         testing::Values(Setup{"k_quants_generic", Weights::kKQuants, ComputeType::kInt8,
                                               Isa::kGeneric},
                                         Setup{"k_quants_f32", Weights::kKQuants, ComputeType::kF32}),
                         NameOf);

// One sequence's numerical trouble is its own.
TEST(NonFiniteTest, StaysInItsSequence) {
  constexpr TokenId kBad = 17;
  for (const ComputeType compute : {ComputeType::kF32, ComputeType::kInt8}) {
    for (const float poison : {std::nanf(""), INFINITY}) {
      const std::map<std::string, std::string> types = {{"attn_q.weight", "Q4_0"},
                                                        {"ffn_up.weight", "Q4_0"},
                                                        {"ffn_gate.weight", "Q8_0"},
                                                        {"output.weight", "Q8_0"}};
      const auto model = MakeSyntheticModel(
          {.hidden = 128, .types = types}, [&](std::map<std::string, std::vector<float>>& values) {
            values["token_embd.weight"][static_cast<std::size_t>(kBad) * 128 + 3] = poison;
          });
      ASSERT_NE(model, nullptr);
      CpuRunnerOptions options;
      options.compute = compute;
      options.threads = 2;
      options.limits = SmallLimits();
      auto harness = RunnerHarness::Create(model->source, options);
      ASSERT_NE(harness, nullptr);
      const std::vector<TokenId> good = {1, 2, 3, 4, 5, 6};
      TestSequence alone = harness->NewSequence(10);
      const Rows expected = harness->Step({{&alone, good, 6}});

      TestSequence bad = harness->NewSequence(10);
      TestSequence neighbour = harness->NewSequence(10);
      const Rows rows = harness->Step({{&bad, {1, 2, kBad, 4, 5, 6}, 6}, {&neighbour, good, 6}});
      for (std::size_t t = 0; t < 6; ++t) {
        SCOPED_TRACE(t);
        EXPECT_TRUE(SameBits(rows[6 + t], expected[t]));
        if (t < 2) {  // tokens before it do not see it
          EXPECT_TRUE(SameBits(rows[t], expected[t]));
        }
        const auto finite =
            std::count_if(rows[t].begin(), rows[t].end(), [](float x) { return std::isfinite(x); });
        EXPECT_EQ(finite, t < 2 ? static_cast<std::ptrdiff_t>(rows[t].size()) : 0);
      }
      // Its blocks, used again, leave no trace.
      bad.tokens.clear();
      const Rows reused = harness->Step({{&bad, good, 6}});
      for (std::size_t t = 0; t < 6; ++t) EXPECT_TRUE(SameBits(reused[t], expected[t]));
      bad.tokens.resize(3);
      const Rows tail = harness->Step({{&bad, {4, 5, 6}, 3}});
      for (std::size_t t = 0; t < 3; ++t) EXPECT_TRUE(SameBits(tail[t], expected[3 + t]));
    }
  }
}

}  // namespace
}  // namespace skipjack
