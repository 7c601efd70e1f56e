// The warm-up: steps as a full house would make them, before there is anybody. They touch the memory that the
// first real steps would otherwise have to fault in, find out whether the model computes at all, and tell the
// watchdog how long a full step takes. They go past the scheduler, so that no counter, no observer and no
// prefix remembers them; what they write into the pool lies in blocks that are all free.
#include <algorithm>
#include <memory>
#include <string>

#include "engine/step_loop.h"

namespace skipjack {
namespace {

// Small enough to be cheap for any model, large enough that its time per token is that of larger steps: below
// about this many, reading the weights takes most of the time.
constexpr std::int32_t kProbeTokens = 16;

// All that a row can be asked for.
SequenceRequest WarmUpRequest() {
  SequenceRequest request;
  request.prompt = {0};
  request.sampling.temperature = 1.0f;
  request.sampling.top_p = 0.9f;
  request.sampling.top_logprobs = 20;
  request.request_id = "warm-up";
  return request;
}

}  // namespace

Status StepLoop::WarmUp(Duration budget) {
  const std::int32_t full = config_.max_batch_tokens;
  Duration time{};
  Result<std::int32_t> computed = RunWarmUpStep(std::min(kProbeTokens, full), &time);
  if (!computed.ok()) return computed.status();
  const double affordable = ToSeconds(budget - time) / std::max(ToSeconds(time), 1e-9) * *computed;
  const auto tokens = static_cast<std::int32_t>(std::min(affordable, 1.0 * full));
  if (tokens > *computed) {
    computed = RunWarmUpStep(tokens, &time);
    if (!computed.ok()) return computed.status();
  }
  NoteStepTime(FromSeconds(ToSeconds(time) * full / *computed));
  inbox_.Publish(stats_, {});
  return Status::Ok();
}

Result<std::int32_t> StepLoop::RunWarmUpStep(std::int32_t tokens, Duration* time) {
  PlanWarmUpStep(tokens);
  BuildBatch();
  const TimePoint start = clock_.Now();
  const Result<StepLogits> logits = runner_->Forward({plan_.tokens, slices_});
  if (!logits.ok()) return logits.status();
  const LiveSequence sequence(0, WarmUpRequest(), nullptr, start);
  row_count_ = plan_.slices.size();
  const std::span<SampledRow> rows = std::span(rows_).first(row_count_);
  for (SampledRow& row : rows) row.sequence = &sequence;
  sampler_.Sample(*runner_, *logits, rows);
  *time = clock_.Now() - start;
  const auto computed = static_cast<std::int32_t>(plan_.tokens.size());
  plan_.Clear();
  for (SampledRow& row : rows) {
    row.sequence = nullptr;
    if (!row.status.ok()) return row.status;
  }
  return computed;
}

// As many sequences as a step can have, each with an equal share of the tokens and a row of logits, as far as
// context and pool allow.
void StepLoop::PlanWarmUpStep(std::int32_t tokens) {
  const std::int32_t sequences = std::min({config_.max_sequences, tokens, config_.kv_blocks});
  const std::int64_t most_blocks = config_.kv_blocks / sequences;
  const std::int64_t most_tokens =
      std::min<std::int64_t>(config_.context_length, most_blocks * config_.block_tokens);
  plan_.Clear();
  BlockId next_block = 0;
  for (std::int32_t i = 0; i < sequences; ++i) {
    const std::int32_t share = tokens / sequences + (i < tokens % sequences ? 1 : 0);
    const auto count = static_cast<std::int32_t>(std::min<std::int64_t>(share, most_tokens));
    const std::int32_t blocks = (count + config_.block_tokens - 1) / config_.block_tokens;
    plan_.slices.push_back({.sequence = static_cast<SequenceId>(i),
                            .token_offset = static_cast<std::int32_t>(plan_.tokens.size()),
                            .token_count = count,
                            .table_offset = static_cast<std::int32_t>(plan_.block_tables.size()),
                            .table_count = blocks,
                            .sample = true});
    for (std::int32_t token = 0; token < count; ++token) {
      plan_.tokens.push_back((i + token) % runner_->vocabulary());
    }
    for (std::int32_t block = 0; block < blocks; ++block) plan_.block_tables.push_back(next_block++);
  }
}

}  // namespace skipjack
