// The runner's contract beyond the numbers: memory, errors, progress, description.
#include "backend/cpu/cpu_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/memory_ledger.h"
#include "tests/support/allocation_counter.h"
#include "tests/unit/backend/fake_machine.h"
#include "tests/unit/backend/runner_harness.h"
#include "tests/unit/backend/synthetic_model.h"

namespace skipjack {
namespace {

CpuRunnerOptions SmallOptions() {
  CpuRunnerOptions options;
  options.threads = 2;
  options.limits = SmallLimits();
  return options;
}

std::shared_ptr<const ModelSource> SomeModel() {
  Result<std::shared_ptr<const ModelSource>> model = ModelSource::Open(FixturePath("gguf/llama.Q4_0.gguf"));
  return model.ok() ? *model : nullptr;
}

TEST(CpuRunnerTest, AStepAllocatesNothing) {
  for (const ComputeType compute : {ComputeType::kInt8, ComputeType::kF32}) {
    CpuRunnerOptions options = SmallOptions();
    options.compute = compute;
    Result<std::unique_ptr<ModelRunner>> runner = CreateCpuRunner(SomeModel(), options, nullptr);
    ASSERT_TRUE(runner.ok()) << runner.status().ToString();
    // The very first step counts too, and one that is as large as can be; one that splits attention.
    std::vector<TokenId> tokens(256, 5);
    std::vector<BlockId> first(32), second(32);
    for (std::int32_t i = 0; i < 32; ++i) {
      first[static_cast<std::size_t>(i)] = i;
      second[static_cast<std::size_t>(i)] = 32 + i;
    }
    const std::vector<BatchSlice> large = {{0, 250, 0, first, 50}, {250, 6, 100, second, 6}};
    const BatchSlice decode = {0, 1, 500, first, 1};
    const std::function<void(std::int32_t)> nothing = [](std::int32_t) {};
    const std::uint64_t before = AllocationCount();
    bool ok = true;
    for (int i = 0; i < 3; ++i) {
      ok = (*runner)->Forward({tokens, large}).ok() && ok;
      ok = (*runner)->Forward({std::span(tokens).first(1), {&decode, 1}}).ok() && ok;
      (*runner)->ParallelFor(10, nothing);
    }
    const std::uint64_t allocations = AllocationCount() - before;
    EXPECT_TRUE(ok);
    EXPECT_EQ(allocations, 0U);
  }
}

TEST(CpuRunnerTest, RefusesOptionsOutOfRange) {
  const auto refused = [](auto change, const char* words) {
    CpuRunnerOptions options = SmallOptions();
    change(options);
    const Status status = CreateCpuRunner(SomeModel(), options, nullptr).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  refused([](CpuRunnerOptions& o) { o.limits.block_tokens = 24; }, "multiple of 16, got 24");
  refused([](CpuRunnerOptions& o) { o.limits.block_tokens = 0; }, "block_tokens must lie in");
  refused([](CpuRunnerOptions& o) { o.limits.kv_blocks = 0; }, "kv blocks");
  refused([](CpuRunnerOptions& o) { o.limits.max_step_tokens = 0; }, "max_step_tokens");
  refused([](CpuRunnerOptions& o) { o.limits.max_slices = -1; }, "max_slices");
  refused([](CpuRunnerOptions& o) { o.limits.max_logits_rows = 0; }, "max_logits_rows");
  refused([](CpuRunnerOptions& o) { o.limits.context_length = 0; }, "context_length");
  refused([](CpuRunnerOptions& o) { o.threads = 100000; }, "threads");
}

TEST(CpuRunnerTest, NamesBothSizesWhenMemoryDoesNotSuffice) {
  CpuRunnerOptions options = SmallOptions();
  options.limits.kv_blocks = 1 << 29;
  const Status status = CreateCpuRunner(SomeModel(), options, nullptr).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  const std::int64_t pool = CpuKvLayout(SomeModel()->config(), options).block_bytes << 29;
  EXPECT_NE(status.message().find("KV cache " + std::to_string(pool)), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("available"), std::string::npos);
}

// The pool's pages are taken as sequences grow, long after the model was loaded: a second model must not be
// promised them.
TEST(CpuRunnerTest, TwoModelsShareOneMachinesMemory) {
  const FakeMachine machine;
  machine.SetMemory(std::int64_t{1} << 30, std::int64_t{1} << 30);
  const MemoryLedger memory(machine.root());
  const std::shared_ptr<const ModelSource> model = SomeModel();
  CpuRunnerOptions options = SmallOptions();
  const std::int64_t block = CpuKvLayout(model->config(), options).block_bytes;
  options.limits.kv_blocks = static_cast<std::int32_t>((std::int64_t{600} << 20) / block);
  Result<std::unique_ptr<ModelRunner>> first = CreateCpuRunner(model, options, nullptr, {.memory = &memory});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  const std::int64_t promised = memory.outstanding_bytes();
  EXPECT_GE(promised, block * options.limits.kv_blocks);
  EXPECT_LE(promised,
            block * options.limits.kv_blocks + (std::int64_t{20} << 20));  // what is packed is there

  const Status refused = CreateCpuRunner(model, options, nullptr, {.memory = &memory}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("KV cache " + std::to_string(block * options.limits.kv_blocks)),
            std::string::npos);
  EXPECT_NE(refused.message().find("has 1073741824 available, of which " + std::to_string(promised) +
                                   " are promised to models that are loaded"),
            std::string::npos)
      << refused.message();

  *first = nullptr;
  EXPECT_EQ(memory.outstanding_bytes(), 0);
  EXPECT_TRUE(CreateCpuRunner(model, options, nullptr, {.memory = &memory}).ok());
}

TEST(CpuRunnerTest, AForcedLevelMustBeThere) {
  CpuRunnerOptions options = SmallOptions();
  options.isa = Isa::kAvx512;
  const Result<std::unique_ptr<ModelRunner>> runner = CreateCpuRunner(SomeModel(), options, nullptr);
  if (runner.ok()) {
    EXPECT_NE((*runner)->description().find("avx512"), std::string::npos);
    return;
  }
  EXPECT_EQ(runner.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(runner.status().message().find("avx512"), std::string::npos);
}

TEST(CpuRunnerTest, RefusesABadStepAndGoesOn) {
  Result<std::unique_ptr<ModelRunner>> runner = CreateCpuRunner(SomeModel(), SmallOptions(), nullptr);
  ASSERT_TRUE(runner.ok());
  const std::vector<BlockId> table = {0};
  const BatchSlice slice = {0, 1, 0, table, 1};
  const std::vector<TokenId> bad = {-1};
  EXPECT_EQ((*runner)->Forward({bad, {&slice, 1}}).status().code(), StatusCode::kInvalidArgument);
  const std::vector<TokenId> good = {1};
  const Result<StepLogits> logits = (*runner)->Forward({good, {&slice, 1}});
  ASSERT_TRUE(logits.ok());
  EXPECT_EQ(logits->rows, 1);
  EXPECT_EQ(logits->vocabulary, (*runner)->vocabulary());
  EXPECT_EQ(logits->Row(0).size(), static_cast<std::size_t>(logits->vocabulary));
}

TEST(CpuRunnerTest, ReportsProgressAndDescription) {
  std::vector<double> fractions;
  CpuRunnerOptions options = SmallOptions();
  options.isa = Isa::kGeneric;
  const Result<std::unique_ptr<ModelRunner>> runner =
      CreateCpuRunner(SomeModel(), options, [&](const std::string& phase, double fraction) {
        EXPECT_FALSE(phase.empty());
        fractions.push_back(fraction);
      });
  ASSERT_TRUE(runner.ok());
  EXPECT_EQ((*runner)->description(), "cpu generic int8 kv=f16 threads=2");
  ASSERT_GE(fractions.size(), 3U);
  EXPECT_EQ(fractions.front(), 0.0);
  EXPECT_EQ(fractions.back(), 1.0);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
}

TEST(CpuRunnerTest, KvLayoutFollowsTheTypeAndTheBlock) {
  const ModelConfig config = SomeModel()->config();
  CpuRunnerOptions options = SmallOptions();
  const std::int64_t half = CpuKvLayout(config, options).block_bytes;
  EXPECT_EQ(half, 16 * config.KvBytesPerToken(2));
  options.limits.block_tokens = 64;
  EXPECT_EQ(CpuKvLayout(config, options).block_bytes, 4 * half);
  options.compute = ComputeType::kF32;
  EXPECT_EQ(CpuKvLayout(config, options).block_bytes, 8 * half);
  options.kv_dtype = KvDType::kBF16;
  EXPECT_EQ(CpuKvLayout(config, options).block_bytes, 4 * half);
}

}  // namespace
}  // namespace skipjack
