// A real model: SmolLM2-135M-Instruct in Q4_1, against float32 goldens and against the engine's own float32
// path.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/unit/backend/runner_harness.h"

namespace skipjack {
namespace {

struct GoldenCase {
  std::string name;
  std::vector<TokenId> prompt;
  std::vector<TokenId> ids;
  std::vector<float> margins;
};

class SmolLm2Test : public testing::Test {
 protected:
  void SetUp() override {
    if (SmolLm2Path().empty()) {
      GTEST_SKIP() << "SmolLM2-135M-Instruct.Q4_1.gguf was not found when the build was configured; put it "
                      "into models/ "
                      "or set SKIPJACK_SMOLLM2";
    }
    std::ifstream file(FixturePath("smollm2-greedy.json"));
    const nlohmann::json golden = nlohmann::json::parse(file);
    for (const nlohmann::json& entry : golden["cases"]) {
      cases_.push_back({entry["name"], entry["prompt_ids"], entry["fp32"]["ids"],
                        entry["fp32"]["top1_top2_logit_margin"]});
    }
    ASSERT_EQ(cases_.size(), 5U);
  }

  std::unique_ptr<RunnerHarness> Make(ComputeType compute) {
    CpuRunnerOptions options;
    options.compute = compute;
    options.limits = SmallLimits();
    options.limits.max_logits_rows = 128;
    return RunnerHarness::Open(SmolLm2Path(), options);
  }

  // Logits after the prompt and after each of `ids` but the last, in one step.
  static Rows Judge(RunnerHarness& harness, const std::vector<TokenId>& prompt,
                    const std::vector<TokenId>& ids) {
    std::vector<TokenId> tokens = prompt;
    tokens.insert(tokens.end(), ids.begin(), ids.end() - 1);
    TestSequence sequence = harness.NewSequence(static_cast<std::int32_t>(tokens.size()));
    Rows rows = harness.Step({{&sequence, tokens, static_cast<std::int32_t>(ids.size())}});
    harness.Release(sequence);
    return rows;
  }

  std::vector<GoldenCase> cases_;
};

TEST_F(SmolLm2Test, F32ReproducesTheGoldenIds) {
  auto harness = Make(ComputeType::kF32);
  ASSERT_NE(harness, nullptr);
  for (const GoldenCase& golden : cases_) {
    SCOPED_TRACE(golden.name);
    const Rows rows = Judge(*harness, golden.prompt, golden.ids);
    ASSERT_EQ(rows.size(), golden.ids.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (golden.margins[i] > 0.01f) {
        EXPECT_EQ(ArgMax(rows[i]), golden.ids[i]) << i;
      }
      EXPECT_NEAR(Margin(rows[i]), golden.margins[i], 0.01) << i;
    }
  }
}

TEST_F(SmolLm2Test, Int8ChoosesWithinAQuarterOfTheF32Maximum) {
  auto harness = Make(ComputeType::kInt8);
  ASSERT_NE(harness, nullptr);
  // Greedy on its own ids, all prompts in one batch.
  std::vector<TestSequence> sequences;
  std::vector<std::vector<TokenId>> chosen(cases_.size());
  for (std::size_t c = 0; c < cases_.size(); ++c) {
    sequences.push_back(harness->NewSequence(static_cast<std::int32_t>(cases_[c].prompt.size()) + 64));
    chosen[c].push_back(ArgMax(harness->Prefill(sequences[c], cases_[c].prompt)));
  }
  for (int step = 1; step < 64; ++step) {
    std::vector<TestSlice> slices;
    for (std::size_t c = 0; c < cases_.size(); ++c) slices.push_back({&sequences[c], {chosen[c].back()}, 1});
    const Rows rows = harness->Step(std::move(slices));
    ASSERT_EQ(rows.size(), cases_.size());
    for (std::size_t c = 0; c < cases_.size(); ++c) chosen[c].push_back(ArgMax(rows[c]));
  }
  harness.reset();

  auto exact = Make(ComputeType::kF32);
  ASSERT_NE(exact, nullptr);
  for (std::size_t c = 0; c < cases_.size(); ++c) {
    const GoldenCase& golden = cases_[c];
    SCOPED_TRACE(golden.name);
    const Rows rows = Judge(*exact, golden.prompt, chosen[c]);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const float best = *std::max_element(rows[i].begin(), rows[i].end());
      EXPECT_GE(rows[i][static_cast<std::size_t>(chosen[c][i])], best - 0.25f) << i;
    }
    // And the golden's ids up to the first step that is a close call.
    for (std::size_t i = 0; i < golden.ids.size() && golden.margins[i] >= 0.25f; ++i) {
      EXPECT_EQ(chosen[c][i], golden.ids[i]) << i;
    }
  }
}

std::int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(SmolLm2Test, MemoryStaysNearWeightsAndCache) {
  const std::int64_t before = ResidentBytes();
  Result<std::shared_ptr<const ModelSource>> model = ModelSource::Open(SmolLm2Path());
  ASSERT_TRUE(model.ok());
  CpuRunnerOptions options;
  options.limits = SmallLimits(2048);
  options.limits.max_step_tokens = 512;
  options.limits.kv_blocks = 512;
  const std::int64_t weights = (*model)->weight_bytes();
  const std::int64_t cache = CpuKvLayout((*model)->config(), options).block_bytes * options.limits.kv_blocks;
  auto harness = RunnerHarness::Create(*model, options);
  ASSERT_NE(harness, nullptr);
  TestSequence sequence = harness->NewSequence(2048);
  harness->Prefill(sequence, std::vector<TokenId>(600, 100));
  const std::int64_t used = ResidentBytes() - before;
  EXPECT_LE(used, (weights + cache) * 12 / 10 + (std::int64_t{150} << 20))
      << "weights " << weights << " cache " << cache;
  RecordProperty("resident_bytes", std::to_string(used));
}

}  // namespace
}  // namespace skipjack
