#include "engine/step_sampler.h"

#include <utility>

namespace skipjack {

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

void StepSampler::Sample(ModelRunner& runner, const StepLogits& logits, std::span<SampledRow> rows) {
  if (rows.size() == 1) {
    SampleRow(logits.Row(0), &rows[0]);
    return;
  }
  runner.ParallelFor(static_cast<std::int32_t>(rows.size()), [&](std::int32_t row) {
    SampleRow(logits.Row(row), &rows[static_cast<std::size_t>(row)]);
  });
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
