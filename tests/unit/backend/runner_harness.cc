#include "tests/unit/backend/runner_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/cpu/isa.h"

namespace skipjack {

RunnerHarness::RunnerHarness(std::shared_ptr<const ModelSource> model, CpuRunnerOptions options,
                             std::unique_ptr<ModelRunner> runner)
    : model_(std::move(model)), options_(std::move(options)), runner_(std::move(runner)) {
  // Every third block first, so that no table is contiguous.
  for (std::int32_t start = 0; start < 3; ++start) {
    for (std::int32_t block = start; block < options_.limits.kv_blocks; block += 3)
      free_blocks_.push_back(block);
  }
}

std::unique_ptr<RunnerHarness> RunnerHarness::Create(std::shared_ptr<const ModelSource> model,
                                                     CpuRunnerOptions options, const CpuHost& host) {
  Result<std::unique_ptr<ModelRunner>> runner = CreateCpuRunner(model, options, nullptr, host);
  if (!runner.ok()) {
    ADD_FAILURE() << runner.status().ToString();
    return nullptr;
  }
  return std::unique_ptr<RunnerHarness>(new RunnerHarness(std::move(model), options, std::move(*runner)));
}

std::unique_ptr<RunnerHarness> RunnerHarness::Open(const std::string& path, const CpuRunnerOptions& options,
                                                   const CpuHost& host) {
  Result<std::shared_ptr<const ModelSource>> model = ModelSource::Open(path);
  if (!model.ok()) {
    ADD_FAILURE() << model.status().ToString();
    return nullptr;
  }
  return Create(*model, options, host);
}

TestSequence RunnerHarness::NewSequence(std::int32_t tokens_capacity) {
  const std::int32_t blocks = (tokens_capacity + limits().block_tokens - 1) / limits().block_tokens;
  TestSequence sequence;
  for (std::int32_t i = 0; i < blocks; ++i) {
    if (free_blocks_.empty()) {
      ADD_FAILURE() << "the test's KV pool is too small";
      break;
    }
    sequence.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  return sequence;
}

void RunnerHarness::Release(TestSequence& sequence) {
  free_blocks_.insert(free_blocks_.begin(), sequence.blocks.begin(), sequence.blocks.end());
  sequence = {};
}

Rows RunnerHarness::Step(std::vector<TestSlice> slices) {
  std::vector<TokenId> tokens;
  std::vector<BatchSlice> batch;
  for (const TestSlice& slice : slices) {
    BatchSlice part;
    part.token_offset = static_cast<std::int32_t>(tokens.size());
    part.token_count = static_cast<std::int32_t>(slice.tokens.size());
    part.position = static_cast<std::int32_t>(slice.sequence->tokens.size());
    part.block_table = slice.sequence->blocks;
    part.logits_rows = slice.logits_rows;
    batch.push_back(part);
    tokens.insert(tokens.end(), slice.tokens.begin(), slice.tokens.end());
  }
  Result<StepLogits> logits = runner_->Forward({tokens, batch});
  if (!logits.ok()) {
    ADD_FAILURE() << logits.status().ToString();
    return {};
  }
  for (TestSlice& slice : slices) {
    slice.sequence->tokens.insert(slice.sequence->tokens.end(), slice.tokens.begin(), slice.tokens.end());
  }
  Rows rows;
  for (std::int32_t row = 0; row < logits->rows; ++row) {
    const std::span<float> values = logits->Row(row);
    rows.emplace_back(values.begin(), values.end());
  }
  return rows;
}

std::vector<float> RunnerHarness::Prefill(TestSequence& sequence, std::span<const TokenId> tokens) {
  const auto step = static_cast<std::size_t>(limits().max_step_tokens);
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t count = std::min(step, tokens.size() - done);
    const bool last = done + count == tokens.size();
    Rows rows = Step({{&sequence,
                       {tokens.begin() + static_cast<std::ptrdiff_t>(done),
                        tokens.begin() + static_cast<std::ptrdiff_t>(done + count)},
                       last ? 1 : 0}});
    done += count;
    if (last) return rows.empty() ? std::vector<float>() : rows.front();
  }
  return {};
}

TokenId ArgMax(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

float Margin(std::span<const float> logits) {
  float best = -std::numeric_limits<float>::infinity();
  float second = best;
  for (const float value : logits) {
    if (value > best) {
      second = std::exchange(best, value);
    } else {
      second = std::max(second, value);
    }
  }
  return best - second;
}

std::string FixturePath(const std::string& name) {
  return std::string(SKIPJACK_FIXTURES) + "/" + name;
}

std::string SmolLm2Path() {
  return SKIPJACK_SMOLLM2;
}

bool IsThere(Isa isa) {
  if (isa == Isa::kAvx512) return kernels::IsSupported(kernels::IsaLevel::kAvx512);
  return isa != Isa::kAvx2 || kernels::IsSupported(kernels::IsaLevel::kAvx2);
}

RunnerLimits SmallLimits(std::int32_t context_length) {
  RunnerLimits limits;
  limits.context_length = context_length;
  limits.max_step_tokens = 256;
  limits.kv_blocks = 8 * context_length / limits.block_tokens;
  limits.max_slices = 16;
  limits.max_logits_rows = 64;
  return limits;
}

}  // namespace skipjack
