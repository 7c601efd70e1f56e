// Every shape and variant of the llama family that the engine claims, against a double-precision reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/backend/emulated_kernels.h"
#include "tests/unit/backend/runner_harness.h"
#include "tests/unit/backend/synthetic_model.h"

namespace skipjack {
namespace {

std::vector<TokenId> Tokens(std::int32_t count, std::int32_t vocabulary) {
  std::vector<TokenId> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((i * 37 + 11 + i * i % 13) % vocabulary);
  return tokens;
}

struct Difference {
  double largest = 0.0;
  double root_mean_square = 0.0;  // relative to that of the reference
};

// Logits of all positions, from one prefill, against the reference.
Difference Compare(const SyntheticModel& model, const CpuRunnerOptions& base, std::int32_t count,
                   const CpuHost& host = {}) {
  CpuRunnerOptions options = base;
  options.limits = SmallLimits(count + 16);
  options.limits.max_step_tokens = count;
  options.limits.max_logits_rows = count;
  auto harness = RunnerHarness::Create(model.source, options, host);
  if (harness == nullptr) return {1e9, 1e9};
  const std::vector<TokenId> tokens = Tokens(count, model.config.vocabulary);
  TestSequence sequence = harness->NewSequence(count);
  const Rows rows = harness->Step({{&sequence, tokens, count}});
  const auto expected = ReferenceLogits(model, tokens);
  EXPECT_EQ(rows.size(), expected.size());
  Difference difference;
  double squares = 0.0;
  double total = 0.0;
  for (std::size_t t = 0; t < rows.size(); ++t) {
    EXPECT_EQ(rows[t].size(), expected[t].size());
    for (std::size_t i = 0; i < rows[t].size(); ++i) {
      const double off = rows[t][i] - expected[t][i];
      difference.largest = std::max(difference.largest, std::isnan(off) ? 1e9 : std::abs(off));
      squares += off * off;
      total += expected[t][i] * expected[t][i];
    }
  }
  difference.root_mean_square = std::sqrt(squares / total);
  return difference;
}

CpuRunnerOptions Exact(Isa isa = Isa::kAuto) {
  CpuRunnerOptions options;
  options.compute = ComputeType::kF32;
  options.isa = isa;
  options.threads = 2;
  return options;
}

constexpr double kF32Tolerance = 1e-4;  // logits are around 2

struct ShapeCase {
  std::int32_t heads, kv_heads, head_dim;
};

class ShapeTest : public testing::TestWithParam<ShapeCase> {};

TEST_P(ShapeTest, F32MatchesReference) {
  SyntheticConfig config;
  config.heads = GetParam().heads;
  config.kv_heads = GetParam().kv_heads;
  config.head_dim = GetParam().head_dim;
  const auto model = MakeSyntheticModel(config);
  ASSERT_NE(model, nullptr);
  EXPECT_LE(Compare(*model, Exact(), 70).largest, kF32Tolerance);
  EXPECT_LE(Compare(*model, Exact(Isa::kGeneric), 70).largest, kF32Tolerance);
}

INSTANTIATE_TEST_SUITE_P(GroupsAndHeadSizes, ShapeTest,
                         testing::Values(ShapeCase{4, 4, 32}, ShapeCase{4, 2, 64}, ShapeCase{6, 2, 80},
                                         ShapeCase{8, 2, 40}, ShapeCase{8, 1, 128}, ShapeCase{7, 1, 16},
                                         ShapeCase{2, 2, 256}, ShapeCase{3, 3, 2}, ShapeCase{5, 1, 50}),
                         [](const auto& test) {
                           return std::to_string(test.param.heads) + "on" +
                                  std::to_string(test.param.kv_heads) + "x" +
                                  std::to_string(test.param.head_dim);
                         });

TEST(ArchitectureTest, LongContextCrossesSoftmaxChunks) {
  const auto model =
      MakeSyntheticModel({.layers = 1, .hidden = 64, .heads = 3, .kv_heads = 1, .head_dim = 32});
  ASSERT_NE(model, nullptr);
  EXPECT_LE(Compare(*model, Exact(), 600).largest, kF32Tolerance);
}

TEST(ArchitectureTest, TiedHeadAndBiases) {
  const auto model = MakeSyntheticModel({.tied = true, .biases = true});
  ASSERT_NE(model, nullptr);
  EXPECT_LE(Compare(*model, Exact(), 40).largest, 1e-3);  // a tied head's logits are tens
}

TEST(ArchitectureTest, PartialRotation) {
  const auto model = MakeSyntheticModel({.head_dim = 48, .rope_dimensions = 16});
  ASSERT_NE(model, nullptr);
  EXPECT_LE(Compare(*model, Exact(), 100).largest, kF32Tolerance);
}

TEST(ArchitectureTest, LinearScaling) {
  const auto model = MakeSyntheticModel({.rope_scaling = "linear", .rope_factor = 4.0f});
  ASSERT_NE(model, nullptr);
  EXPECT_LE(Compare(*model, Exact(), 100).largest, kF32Tolerance);
}

TEST(ArchitectureTest, YarnScaling) {
  const auto model = MakeSyntheticModel({.head_dim = 64,
                                         .rope_base = 500.0f,
                                         .rope_scaling = "yarn",
                                         .rope_factor = 8.0f,
                                         .original_context = 256});
  ASSERT_NE(model, nullptr);
  EXPECT_LE(Compare(*model, Exact(), 100).largest, kF32Tolerance);
}

TEST(ArchitectureTest, Llama3Factors) {
  std::vector<float> factors;
  for (int i = 0; i < 16; ++i)
    factors.push_back(i < 5 ? 1.0f : (i < 9 ? 1.0f + static_cast<float>(i) * 0.7f : 8.0f));
  const auto model = MakeSyntheticModel({.rope_base = 500000.0f, .rope_factors = factors});
  ASSERT_NE(model, nullptr);
  EXPECT_LE(Compare(*model, Exact(), 100).largest, kF32Tolerance);
}

TEST(ArchitectureTest, SixteenBitWeights) {
  const std::map<std::string, std::string> halves = {
      {"attn_q.weight", "F16"},      {"attn_k.weight", "F16"}, {"attn_v.weight", "F16"},
      {"attn_output.weight", "F16"}, {"output.weight", "F16"}, {"ffn_gate.weight", "F16"},
      {"ffn_down.weight", "F16"},    {"ffn_up.weight", "F16"}};
  const auto model = MakeSyntheticModel({.types = halves});
  ASSERT_NE(model, nullptr);
  CpuRunnerOptions options;
  options.threads = 2;
  EXPECT_LE(Compare(*model, options, 60).root_mean_square, 2e-3);  // keys and values are rounded to 16 bits
  options.kv_dtype = KvDType::kBF16;
  EXPECT_LE(Compare(*model, options, 60).root_mean_square, 2e-2);
  options.kv_dtype = KvDType::kF32;
  EXPECT_LE(Compare(*model, options, 60).largest, kF32Tolerance);
}

// bfloat16 activations in every product, and where gate and up would want different ones.
TEST(ArchitectureTest, BFloat16Products) {
  const std::map<std::string, std::string> mixed = {{"attn_v.weight", "F16"}, {"ffn_gate.weight", "F16"}};
  for (const auto& types : {std::map<std::string, std::string>(), mixed}) {
    for (const std::int32_t head_dim : {32, 40}) {  // heads that are whole activation blocks, and not
      const auto model = MakeSyntheticModel({.head_dim = head_dim, .types = types});
      ASSERT_NE(model, nullptr);
      CpuRunnerOptions options;
      options.threads = 2;
      options.compute = ComputeType::kBF16;
      const CpuHost host = {.kernels = &KernelsWithEmulatedBFloat16()};
      const long before = EmulatedBFloat16Products();
      // Eight bits of every weight and activation are left.
      EXPECT_LE(Compare(*model, options, 40, host).root_mean_square, 2e-2) << head_dim;
      EXPECT_GT(EmulatedBFloat16Products(), before);
    }
  }
}

// Matrices of one phase that want different kinds of activations.
TEST(ArchitectureTest, MixedTypes) {
  const std::map<std::string, std::string> mixed = {
      {"attn_q.weight", "Q4_0"},      {"attn_k.weight", "Q8_0"},   {"attn_v.weight", "F16"},
      {"attn_output.weight", "Q8_0"}, {"ffn_gate.weight", "Q4_0"}, {"ffn_up.weight", "Q8_0"},
      {"ffn_down.weight", "F16"},     {"output.weight", "Q4_0"},   {"token_embd.weight", "Q8_0"}};
  for (const std::int32_t head_dim : {32, 40, 64}) {  // heads that are whole activation blocks, and not
    const auto model =
        MakeSyntheticModel({.hidden = 128, .heads = 4, .kv_heads = 4, .head_dim = head_dim, .types = mixed});
    ASSERT_NE(model, nullptr);
    CpuRunnerOptions options;
    options.threads = 2;
    for (const Isa isa : {Isa::kAuto, Isa::kGeneric}) {
      options.isa = isa;
      options.compute = ComputeType::kInt8;
      // Activations of 8 bits cost about half a percent per product; ones of the wrong kind cost everything.
      EXPECT_LE(Compare(*model, options, 40).root_mean_square, 0.08) << head_dim;
      options.compute = ComputeType::kF32;
      EXPECT_LE(Compare(*model, options, 40).largest, kF32Tolerance) << head_dim;
    }
  }
}

}  // namespace
}  // namespace skipjack
