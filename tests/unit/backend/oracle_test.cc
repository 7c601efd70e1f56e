// The engine against goldens that independent programs computed (tests/fixtures/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/backend/emulated_kernels.h"
#include "tests/unit/backend/runner_harness.h"

namespace skipjack {
namespace {

using nlohmann::json;

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return json::parse(file);
}

struct Tolerance {
  float logits = 0.0f;            // largest difference of the ten best after the prompt
  bool relative_to_best = false;  // compare distances to the best instead of values
  float margin = 0.0f;            // ids must match where the golden's margin is over this
  double share = 1.0;             // and at least this share of all steps
  double rms = 1.0;               // of the difference of all logits, relative to theirs
};

struct Case {
  std::string name;
  std::string file;
  ComputeType compute;
  Isa isa;
  Tolerance tolerance;
  bool emulated_pairs = false;  // bfloat16 products, emulated
};

constexpr Tolerance kExact = {2e-3f, false, 0.01f, 1.0};
constexpr Tolerance kHalf = {0.1f, false, 0.1f, 1.0};
// Tighter than the fixtures' own for bfloat16 activations: here only what enters a product is rounded.
constexpr Tolerance kBFloat16 = {0.5f, true, 0.5f, 0.98, 0.02};
constexpr Tolerance kQuantised = {2.0f, true, 1.5f, 0.9};

double RelativeRms(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double squares = 0.0;
  double total = 0.0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    squares += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
    total += std::pow(static_cast<double>(want[i]), 2);
  }
  return std::sqrt(squares / total);
}

class OracleTest : public testing::TestWithParam<Case> {};

TEST_P(OracleTest, MatchesGolden) {
  const Case& test = GetParam();
  CpuRunnerOptions options;
  options.compute = test.compute;
  options.isa = test.isa;
  options.threads = 2;
  options.limits = SmallLimits();
  if (!IsThere(test.isa)) GTEST_SKIP() << "this machine lacks the instruction set";
  CpuHost host;
  if (test.emulated_pairs) host.kernels = &KernelsWithEmulatedBFloat16();
  auto harness = RunnerHarness::Open(FixturePath("gguf/" + test.file), options, host);
  ASSERT_NE(harness, nullptr);
  const json golden = ReadJson(FixturePath("goldens/" + test.file + ".json"));

  int steps = 0;
  int matches = 0;
  float largest = 0.0f;
  for (const json& prompt : golden["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const auto ids = prompt["ids"].get<std::vector<TokenId>>();
    const auto greedy = prompt["greedy"]["ids"].get<std::vector<TokenId>>();
    const auto margins = prompt["greedy"]["margins"].get<std::vector<float>>();
    TestSequence sequence = harness->NewSequence(static_cast<std::int32_t>(ids.size() + greedy.size()));
    std::vector<float> logits = harness->Prefill(sequence, ids);
    ASSERT_FALSE(logits.empty());

    const auto best_ids = prompt["top10"]["ids"].get<std::vector<std::size_t>>();
    const auto best_logits = prompt["top10"]["logits"].get<std::vector<float>>();
    for (std::size_t i = 0; i < best_ids.size(); ++i) {
      const float base = test.tolerance.relative_to_best ? best_logits[0] - logits[best_ids[0]] : 0.0f;
      const float difference = std::abs(logits[best_ids[i]] + base - best_logits[i]);
      largest = std::max(largest, difference);
      EXPECT_LE(difference, test.tolerance.logits) << "id " << best_ids[i];
    }
    if (prompt.contains("logits") && !test.tolerance.relative_to_best) {
      const auto all = prompt["logits"].get<std::vector<float>>();
      ASSERT_EQ(all.size(), logits.size());
      for (std::size_t i = 0; i < all.size(); ++i) {
        ASSERT_LE(std::abs(logits[i] - all[i]), test.tolerance.logits) << "id " << i;
      }
    }
    if (prompt.contains("logits")) {
      EXPECT_LE(RelativeRms(logits, prompt["logits"].get<std::vector<float>>()), test.tolerance.rms);
    }
    // Teacher-forced: each step is judged on the golden's own ids before it.
    for (std::size_t step = 0; step < greedy.size(); ++step) {
      ++steps;
      const bool same = ArgMax(logits) == greedy[step];
      matches += same ? 1 : 0;
      if (margins[step] > test.tolerance.margin) {
        EXPECT_TRUE(same) << "step " << step << " margin " << margins[step];
      }
      if (step + 1 < greedy.size()) logits = harness->Step({{&sequence, {greedy[step]}, 1}}).at(0);
    }
    harness->Release(sequence);
  }
  EXPECT_EQ(steps, 288);
  EXPECT_GE(matches, test.tolerance.share * steps);
  RecordProperty("matches", matches);
  RecordProperty("largest_difference", std::to_string(largest));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* type : {"F32", "F16", "Q8_0", "Q4_0", "Q5_1", "Q3_K_M", "Q4_K_M", "Q6_K", "IQ4_NL"}) {
    const std::string file = std::string("llama.") + type + ".gguf";
    const bool plain = type[0] == 'F';
    cases.push_back({std::string(type) + "_f32", file, ComputeType::kF32, Isa::kAuto, kExact});
    cases.push_back({std::string(type) + "_f32_generic", file, ComputeType::kF32, Isa::kGeneric, kExact});
    if (!plain)
      cases.push_back({std::string(type) + "_int8", file, ComputeType::kInt8, Isa::kAuto, kQuantised});
    if (!plain)
      cases.push_back(
          {std::string(type) + "_int8_generic", file, ComputeType::kInt8, Isa::kGeneric, kQuantised});
  }
  cases.push_back({"F16_auto", "llama.F16.gguf", ComputeType::kAuto, Isa::kAuto, kHalf});
  cases.push_back({"F16_bf16_generic", "llama.F16.gguf", ComputeType::kBF16, Isa::kGeneric, kHalf});
  cases.push_back(
      {"F32_bf16_emulated_pairs", "llama.F32.gguf", ComputeType::kBF16, Isa::kAuto, kBFloat16, true});
  cases.push_back({"F32_bf16_avx512", "llama.F32.gguf", ComputeType::kBF16, Isa::kAvx512, kBFloat16});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Files, OracleTest, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace skipjack
