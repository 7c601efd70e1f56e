// Chooses the next tokens of one step's sequences, on the runner's threads.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backend/model_runner.h"
#include "base/status.h"
#include "engine/live_sequence.h"
#include "sampling/sequence_sampler.h"

namespace skipjack {

// One row of logits and what was chosen from it.
struct SampledRow {
  SequenceId id = 0;
  const LiveSequence* sequence = nullptr;  // while the rows are sampled
  Status status;
  TokenEvent event;  // its token is filled
};

// Working memory for as many threads as sample at once. A runner with more threads than the machine has makes
// it grow to that number, where it stays.
class ScratchPool {
 public:
  ScratchPool(std::int32_t vocabulary, std::size_t ready);

  std::unique_ptr<SamplerScratch> Take();
  void Return(std::unique_ptr<SamplerScratch> scratch);

 private:
  const std::int32_t vocabulary_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SamplerScratch>> free_;
};

class StepSampler {
 public:
  // Ids from `sampled_ids` on are never chosen. `max_rows`: of one step.
  StepSampler(std::int32_t vocabulary, std::int32_t sampled_ids, std::int32_t max_rows);

  // rows[i] belongs to row i of `logits`, which are overwritten.
  void Sample(ModelRunner& runner, const StepLogits& logits, std::span<SampledRow> rows);

 private:
  void SampleRow(std::span<float> logits, SampledRow* row);

  ScratchPool scratch_;
  const std::int32_t sampled_ids_;
};

}  // namespace skipjack
