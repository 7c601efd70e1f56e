// What an engine computes before its first request.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <set>
#include <vector>

#include "tests/unit/engine/engine_harness.h"

namespace skipjack::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Shape {
  std::size_t tokens = 0;
  std::size_t slices = 0;
  std::int32_t rows = 0;

  friend bool operator==(const Shape&, const Shape&) = default;
};

class WarmUpTest : public ::testing::Test {
 protected:
  WarmUpTest() {
    setup_.clock = &clock_;
    setup_.watchdog = seconds(30);
    setup_.warm_up = seconds(1);
    setup_.on_forward = [this](const StepBatch& batch) {
      Shape shape{batch.tokens.size(), batch.slices.size(), 0};
      std::set<BlockId> blocks;
      for (const BatchSlice& slice : batch.slices) {
        shape.rows += slice.logits_rows;
        for (const BlockId block : slice.block_table) EXPECT_TRUE(blocks.insert(block).second);
      }
      shapes_.push_back(shape);
      clock_.Advance(milliseconds(token_milliseconds_) * static_cast<int>(batch.tokens.size()));
      return Status::Ok();
    };
  }

  ManualClock clock_;
  EngineSetup setup_;
  int token_milliseconds_ = 0;
  std::vector<Shape> shapes_;
};

TEST_F(WarmUpTest, ComputesTheLargestStepWhereThatIsCheap) {
  setup_.scheduler.max_batch_tokens = 100;
  const auto engine = MakeEngine(setup_);
  EXPECT_EQ(shapes_, (std::vector<Shape>{{16, 8, 8}, {100, 8, 8}}));
}

TEST_F(WarmUpTest, KeepsToItsBudgetAndKnowsWhatAFullStepTakes) {
  setup_.scheduler.max_batch_tokens = 128;
  token_milliseconds_ = 20;  // 16 tokens: 0.32 s; what is left pays for 34 more
  const auto engine = MakeEngine(setup_);
  EXPECT_EQ(shapes_, (std::vector<Shape>{{16, 8, 8}, {34, 8, 8}}));
  EXPECT_DOUBLE_EQ(engine->Stats().longest_step_seconds, 128 * 0.020);
}

TEST_F(WarmUpTest, ASlowModelGetsTheSmallStepOnly) {
  setup_.scheduler.max_batch_tokens = 128;
  token_milliseconds_ = 500;
  const auto engine = MakeEngine(setup_);
  EXPECT_EQ(shapes_, (std::vector<Shape>{{16, 8, 8}}));
  EXPECT_DOUBLE_EQ(engine->Stats().longest_step_seconds, 64.0);
}

TEST_F(WarmUpTest, FitsIntoSmallPoolsAndContexts) {
  setup_.scheduler = {
      .max_batch_tokens = 64, .max_sequences = 8, .block_tokens = 4, .kv_blocks = 3, .context_length = 6};
  MakeEngine(setup_);
  EXPECT_EQ(shapes_.back(), (Shape{12, 3, 3}));
  setup_.scheduler = {
      .max_batch_tokens = 64, .max_sequences = 2, .block_tokens = 4, .kv_blocks = 100, .context_length = 6};
  MakeEngine(setup_);
  EXPECT_EQ(shapes_.back(), (Shape{12, 2, 2}));
  setup_.scheduler = {
      .max_batch_tokens = 1, .max_sequences = 1, .block_tokens = 4, .kv_blocks = 1, .context_length = 4};
  MakeEngine(setup_);
  EXPECT_EQ(shapes_.back(), (Shape{1, 1, 1}));
}

class DeafObserver final : public EngineObserver {
 public:
  std::atomic<int> calls{0};
  void OnStep(double, std::int32_t, std::int32_t) override { ++calls; }
  void OnToken(double) override { ++calls; }
  void OnFirstToken(double, double) override { ++calls; }
  void OnFinish(const FinishEvent&, double) override { ++calls; }
};

TEST_F(WarmUpTest, LeavesNoTrace) {
  const auto observer = std::make_shared<DeafObserver>();
  setup_.observer = observer;
  const auto engine = MakeEngine(setup_);
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(
      stats.steps + stats.generated_tokens + stats.prompt_tokens + stats.finished_length + stats.rejected,
      0u);
  EXPECT_EQ(stats.scheduler.blocks_free, stats.scheduler.blocks_total);
  EXPECT_EQ(stats.scheduler.prefix_queries_tokens, 0u);
  EXPECT_EQ(observer->calls, 0);
  ExpectAllGivenBack(*engine);
  // And the answers are the model's.
  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(engine->Submit(Request(Prompt(20, 1), 10), sink).ok());
  sink->Wait();
  EXPECT_EQ(sink->tokens(), Reference(Prompt(20, 1), 10));
}

TEST_F(WarmUpTest, AModelThatCannotComputeIsRefused) {
  setup_.on_logits = [](std::int32_t row, std::span<float> logits) {
    if (row == 3) logits[0] = std::numeric_limits<float>::quiet_NaN();
  };
  const Status non_finite = TryMakeEngine(setup_).status();
  EXPECT_NE(non_finite.message().find("the warm-up failed: non-finite logits"), std::string::npos)
      << non_finite.ToString();
  setup_.on_forward = [](const StepBatch&) { return Status::Internal("no device"); };
  EXPECT_EQ(TryMakeEngine(setup_).status(), Status::Internal("the warm-up failed: no device"));
}

}  // namespace
}  // namespace skipjack::testing
