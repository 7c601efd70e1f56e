// Drives a CpuRunner the way the engine does: sequences with block tables, batched into steps.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_runner.h"

namespace skipjack {

// One sequence's place in the KV pool.
struct TestSequence {
  std::vector<TokenId> tokens;  // already computed
  std::vector<BlockId> blocks;  // covers more than `tokens`
};

// What a sequence gets computed in a step.
struct TestSlice {
  TestSequence* sequence = nullptr;
  std::vector<TokenId> tokens;
  std::int32_t logits_rows = 0;
};

using Rows = std::vector<std::vector<float>>;

class RunnerHarness {
 public:
  // Fails the test when the runner cannot be made.
  static std::unique_ptr<RunnerHarness> Create(std::shared_ptr<const ModelSource> model,
                                               CpuRunnerOptions options, const CpuHost& host = {});
  static std::unique_ptr<RunnerHarness> Open(const std::string& path, const CpuRunnerOptions& options,
                                             const CpuHost& host = {});

  ModelRunner& runner() { return *runner_; }
  const RunnerLimits& limits() const { return options_.limits; }

  // A sequence with a table of `blocks` blocks, in an order that depends on the pool's state (not ascending).
  TestSequence NewSequence(std::int32_t tokens_capacity);
  void Release(TestSequence& sequence);

  // One Forward over all slices; advances their sequences. Rows in the order of the slices.
  Rows Step(std::vector<TestSlice> slices);

  // Logits of the last token of `tokens`, computed from scratch in chunks of at most max_step_tokens.
  std::vector<float> Prefill(TestSequence& sequence, std::span<const TokenId> tokens);

 private:
  RunnerHarness(std::shared_ptr<const ModelSource> model, CpuRunnerOptions options,
                std::unique_ptr<ModelRunner> runner);

  std::shared_ptr<const ModelSource> model_;
  CpuRunnerOptions options_;
  std::unique_ptr<ModelRunner> runner_;
  std::vector<BlockId> free_blocks_;
};

TokenId ArgMax(std::span<const float> logits);
// Best minus second best.
float Margin(std::span<const float> logits);
std::string FixturePath(const std::string& name);
// Empty when the model was not found at configure time.
std::string SmolLm2Path();

// Whether this machine has a level that a test forces.
bool IsThere(Isa isa);

// Limits that suit small test models.
RunnerLimits SmallLimits(std::int32_t context_length = 512);

}  // namespace skipjack
