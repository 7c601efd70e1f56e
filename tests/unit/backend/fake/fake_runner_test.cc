#include "backend/fake/fake_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace skipjack {
namespace {

FakeRunnerOptions Options() {
  FakeRunnerOptions options;
  options.vocabulary = 64;
  options.limits = {.block_tokens = 4,
                    .kv_blocks = 8,
                    .max_step_tokens = 16,
                    .max_slices = 2,
                    .max_logits_rows = 4,
                    .context_length = 20};
  return options;
}

TokenId Best(std::span<const float> row) {
  return static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin());
}

// One sequence that is computed slice by slice.
Result<StepLogits> RunSlice(ModelRunner& runner, const std::vector<TokenId>& tokens, std::int32_t position,
                            const std::vector<BlockId>& table, std::int32_t rows = 1) {
  const BatchSlice slice = {.token_offset = 0,
                            .token_count = static_cast<std::int32_t>(tokens.size()),
                            .position = position,
                            .block_table = table,
                            .logits_rows = rows};
  return runner.Forward({tokens, std::span(&slice, 1)});
}

TEST(FakeRunnerTest, WholePromptChunksAndSingleTokensAgreeWithTheReference) {
  const std::vector<TokenId> tokens = {5, 9, 9, 1, 60, 3, 22};
  const auto runner = CreateFakeRunner(Options());
  const auto whole = RunSlice(*runner, tokens, 0, {7, 2}, 3);
  ASSERT_TRUE(whole.ok());
  ASSERT_EQ(whole->rows, 3);
  for (std::int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Best(whole->Row(i)),
              FakeNextToken(std::span(tokens).first(static_cast<std::size_t>(5 + i)), 64));
  }
  ASSERT_TRUE(RunSlice(*runner, {5, 9, 9}, 0, {0}, 0).ok());
  ASSERT_TRUE(RunSlice(*runner, {1, 60, 3}, 3, {0, 5}, 0).ok());
  const auto last = RunSlice(*runner, {22}, 6, {0, 5});
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(Best(last->Row(0)), FakeNextToken(tokens, 64));
  // The same step again gives the same.
  EXPECT_EQ(Best(RunSlice(*runner, {22}, 6, {0, 5})->Row(0)), FakeNextToken(tokens, 64));
}

TEST(FakeRunnerTest, AnInterruptedStepIsDroppedAndCanBeRunAgain) {
  const auto runner = CreateFakeRunner(Options());
  const std::vector<TokenId> tokens = {5, 9, 9, 1, 60};
  const std::vector<BlockId> table = {7, 2};
  ASSERT_TRUE(RunSlice(*runner, {5, 9, 9}, 0, table, 0).ok());
  const std::vector<TokenId> rest = {1, 60};
  const BatchSlice slice = {
      .token_offset = 0, .token_count = 2, .position = 3, .block_table = table, .logits_rows = 1};
  StepInterrupt interrupt;
  interrupt.Request(4);
  const auto step = [&](std::uint64_t ticket) {
    return runner->Forward({rest, std::span(&slice, 1), &interrupt, ticket});
  };
  EXPECT_EQ(step(4).status().code(), StatusCode::kAborted);
  const auto done = step(5);
  ASSERT_TRUE(done.ok());
  EXPECT_EQ(Best(done->Row(0)), FakeNextToken(tokens, 64));
}

TEST(FakeRunnerTest, WrongBlocksAndPositionsShow) {
  const auto runner = CreateFakeRunner(Options());
  const std::vector<TokenId> tokens = {5, 9, 9, 1, 60};
  const auto next_of = [&](std::int32_t position, const std::vector<BlockId>& table) {
    std::vector<float> row;
    const auto logits = RunSlice(*runner, {60}, position, table);
    EXPECT_TRUE(logits.ok());
    row.assign(logits->Row(0).begin(), logits->Row(0).end());
    return row;
  };
  ASSERT_TRUE(RunSlice(*runner, {5, 9, 9, 1}, 0, {3}, 0).ok());
  const std::vector<float> right = next_of(4, {3, 4});
  EXPECT_EQ(Best(right), FakeNextToken(tokens, 64));
  EXPECT_NE(next_of(4, {2, 4}), right);  // a block that was never written
  EXPECT_NE(next_of(5, {3, 4}), right);  // one position too far
  ASSERT_TRUE(RunSlice(*runner, {5, 9, 8, 1}, 0, {3}, 0).ok());
  EXPECT_NE(next_of(4, {3, 4}), right);  // somebody else's block
}

TEST(FakeRunnerTest, RefusesWhatBreaksTheContract) {
  const auto runner = CreateFakeRunner(Options());
  EXPECT_FALSE(RunSlice(*runner, {64}, 0, {0}).ok());
  EXPECT_FALSE(RunSlice(*runner, {-1}, 0, {0}).ok());
  EXPECT_FALSE(RunSlice(*runner, {1}, 0, {8}).ok());
  EXPECT_FALSE(RunSlice(*runner, {1}, 0, {-1}).ok());
  EXPECT_FALSE(RunSlice(*runner, {1, 2, 3, 4, 5}, 0, {0}).ok());
  EXPECT_FALSE(RunSlice(*runner, {1}, 20, {0, 1, 2, 3, 4, 5}).ok());
  EXPECT_FALSE(RunSlice(*runner, {1}, -1, {0}).ok());
  EXPECT_FALSE(RunSlice(*runner, {1}, 0, {0}, 2).ok());
  EXPECT_FALSE(RunSlice(*runner, {}, 0, {0}, 0).ok());
  EXPECT_FALSE(RunSlice(*runner, std::vector<TokenId>(17, 1), 0, {0, 1, 2, 3, 4}).ok());
  EXPECT_FALSE(RunSlice(*runner, std::vector<TokenId>(8, 1), 0, {0, 1}, 5).ok());
  EXPECT_TRUE(RunSlice(*runner, {1}, 0, {0}).ok());
}

TEST(FakeRunnerTest, HooksSeeEveryStepAndRow) {
  FakeRunnerOptions options = Options();
  int steps = 0;
  options.on_forward = [&](const StepBatch& batch) {
    EXPECT_EQ(batch.tokens.size(), 2u);
    return ++steps == 2 ? Status::Internal("injected") : Status::Ok();
  };
  options.on_logits = [](std::int32_t row, std::span<float> logits) {
    logits[0] = 100.0f + static_cast<float>(row);
  };
  const auto runner = CreateFakeRunner(std::move(options));
  const auto first = RunSlice(*runner, {1, 2}, 0, {0}, 2);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->Row(0)[0], 100.0f);
  EXPECT_EQ(first->Row(1)[0], 101.0f);
  EXPECT_EQ(RunSlice(*runner, {1, 2}, 0, {0}).status(), Status::Internal("injected"));
}

TEST(FakeRunnerTest, ParallelForCoversEveryIndexOnce) {
  for (const std::int32_t threads : {1, 3}) {
    FakeRunnerOptions options = Options();
    options.threads = threads;
    const auto runner = CreateFakeRunner(std::move(options));
    for (const std::int32_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
      runner->ParallelFor(count, [&](std::int32_t i) { ++hits[static_cast<std::size_t>(i)]; });
      for (const auto& hit : hits) EXPECT_EQ(hit, 1);
    }
  }
}

}  // namespace
}  // namespace skipjack
