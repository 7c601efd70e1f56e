#include "engine/step_sampler.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <utility>

namespace skipjack {

ScratchPool::ScratchPool(std::int32_t vocabulary, std::size_t ready) : vocabulary_(vocabulary) {
  while (free_.size() < ready) free_.push_back(std::make_unique<SamplerScratch>(vocabulary_));
}

std::unique_ptr<SamplerScratch> ScratchPool::Take() {
  {
    std::lock_guard guard(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<SamplerScratch> scratch = std::move(free_.back());
      free_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<SamplerScratch>(vocabulary_);
}

void ScratchPool::Return(std::unique_ptr<SamplerScratch> scratch) {
  std::lock_guard guard(mutex_);
  free_.push_back(std::move(scratch));
}

StepSampler::StepSampler(std::int32_t vocabulary, std::int32_t sampled_ids, std::int32_t max_rows)
    : scratch_(vocabulary, std::min(static_cast<std::size_t>(max_rows),
                                    static_cast<std::size_t>(std::thread::hardware_concurrency()))),
      sampled_ids_(sampled_ids) {}

void StepSampler::Sample(ModelRunner& runner, const StepLogits& logits, std::span<SampledRow> rows) {
  if (rows.size() == 1) {
    SampleRow(logits.Row(0), &rows[0]);
    return;
  }
  const auto sample = [&](std::int32_t row) {
    SampleRow(logits.Row(row), &rows[static_cast<std::size_t>(row)]);
  };
  // By reference: a std::function of this size would be allocated in every step.
  runner.ParallelFor(static_cast<std::int32_t>(rows.size()), std::cref(sample));
}

void StepSampler::SampleRow(std::span<float> logits, SampledRow* row) {
  const LiveSequence& sequence = *row->sequence;
  const auto position = static_cast<std::uint64_t>(sequence.prompt_tokens) +
                        static_cast<std::uint64_t>(sequence.sampler.generated());
  std::unique_ptr<SamplerScratch> scratch = scratch_.Take();
  row->status = sequence.sampler.Sample(logits.first(static_cast<std::size_t>(sampled_ids_)), position,
                                        scratch.get(), &row->event.token);
  scratch_.Return(std::move(scratch));
}

}  // namespace skipjack
