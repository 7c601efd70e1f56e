// A model without weights for tests: its next token is a hash of all tokens before it, read back from a real
// paged KV pool, so that a wrong block table, position or stale block changes the output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/model_runner.h"

namespace skipjack {

struct FakeRunnerOptions {
  std::int32_t vocabulary = 256;
  RunnerLimits limits;
  // Called at the start of every Forward, on the step thread: tests block, count or fail steps here.
  std::function<Status(const StepBatch&)> on_forward;
  // Called for each copy, on the thread that makes it: false makes it fail.
  std::function<bool(const BlockCopy&)> on_copy;
  // May change the logits of each row before they are returned (to put a NaN there, say).
  std::function<void(std::int32_t row, std::span<float> logits)> on_logits;
  std::int32_t threads = 1;  // of ParallelFor, the caller's among them
};

// Forward() refuses (InvalidArgument) batches that break the contract of model_runner.h or exceed the limits.
// It looks for an interrupt between on_forward and the end of its work, and makes the worst of what it may:
// where it stops, the slots of the batch's own tokens hold garbage.
std::unique_ptr<ModelRunner> CreateFakeRunner(FakeRunnerOptions options);

// The token that the fake model puts first after `tokens` (greedy), computed without any KV: the tests'
// reference.
TokenId FakeNextToken(std::span<const TokenId> tokens, std::int32_t vocabulary);

}  // namespace skipjack
