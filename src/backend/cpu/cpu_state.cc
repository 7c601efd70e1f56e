#include "backend/cpu/cpu_state.h"

#include <algorithm>

#include "backend/cpu/rope_rows.h"
#include "backend/cpu/work_share.h"
#include "kernels/cpu/attention.h"

namespace skipjack {
namespace {

using kernels::ActivationKind;

// Normalising and quantising this many floats costs about as much as a barrier.
constexpr std::int64_t kPrivateFloats = 2048;

// Hands out 64-byte aligned pieces of memory; with a null base it only counts.
class Placer {
 public:
  explicit Placer(std::byte* base) : base_(base) {}

  std::byte* Take(std::int64_t bytes) {
    std::byte* piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return piece;
  }
  float* TakeFloats(std::int64_t count) {
    return reinterpret_cast<float*>(Take(count * std::int64_t{sizeof(float)}));
  }
  ActivationRows TakeRows(KindSet kinds, std::int64_t rows, std::int64_t columns) {
    ActivationRows taken;
    for (std::size_t k = 0; k < taken.data.size(); ++k) {
      const auto kind = static_cast<ActivationKind>(k);
      if (!Has(kinds, kind)) continue;
      taken.row_bytes[k] = kernels::ActivationRowBytes(kind, columns);
      taken.data[k] = Take(rows * static_cast<std::int64_t>(taken.row_bytes[k]));
    }
    return taken;
  }
  std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

StepLayoutLimits LayoutLimits(const ModelConfig& config, const CpuStateOptions& options) {
  return {options.limits, config.vocabulary_rows, config.heads / config.kv_heads, options.lanes};
}

}  // namespace

CpuState::CpuState(const ModelConfig& config, const CpuStateOptions& options, std::vector<LayerKinds> kinds)
    : config_(config),
      options_(options),
      kinds_(std::move(kinds)),
      layout_(LayoutLimits(config, options), options.kv),
      kv_store_(options.limits.tiers(), options.kv.block_bytes()),
      lanes_(static_cast<std::size_t>(options.lanes)),
      queue_(options.lanes),
      next_item_(std::make_unique<PaddedCounter[]>(static_cast<std::size_t>(config.layers))),
      pieces_left_(std::make_unique<PaddedCounter[]>(static_cast<std::size_t>(layout_.max_splits()) *
                                                     static_cast<std::size_t>(config.kv_heads))) {
  for (const LayerKinds& layer : kinds_) {
    all_qkv_ |= layer.qkv | layer.gate_up;
    all_attended_ |= layer.attention_output;
    all_down_ |= layer.down;
  }
  all_qkv_ |= options.head_kinds;
  private_rows_ = std::max<std::int64_t>(1, kPrivateFloats / config.hidden);
  activation_bytes_ = PlaceActivations(nullptr);
}

std::int64_t CpuState::PlaceActivations(std::byte* base) {
  const KindSet floats = Contains(ActivationKind::kFloat32);
  const std::int64_t tokens = options_.limits.max_step_tokens;
  const std::int64_t query_columns = std::int64_t{config_.heads} * config_.head_dim;
  const std::int64_t kv_columns = std::int64_t{config_.kv_heads} * config_.head_dim;
  Placer placer(base);
  hidden = placer.TakeRows(floats, tokens, config_.hidden);
  query = placer.TakeRows(floats, tokens, query_columns);
  key_value = placer.TakeRows(floats, tokens, 2 * kv_columns);
  attended = placer.TakeRows(all_attended_ | floats, tokens, query_columns);
  gated = placer.TakeRows(all_down_ | floats, tokens, config_.feed_forward);
  normed = placer.TakeRows(all_qkv_, std::max<std::int64_t>(tokens, options_.limits.max_logits_rows),
                           config_.hidden);
  logits = placer.TakeFloats(std::int64_t{options_.limits.max_logits_rows} * config_.vocabulary_rows);
  partials = placer.TakeFloats(layout_.partial_floats());
  rope_ = placer.TakeFloats(std::int64_t{options_.limits.context_length} * config_.head_dim);
  for (LaneScratch& lane : lanes_) {
    lane.normed = placer.TakeRows(all_qkv_ | all_attended_, private_rows_,
                                  std::max<std::int64_t>(config_.hidden, query_columns));
    lane.row = placer.TakeFloats(config_.hidden);
    lane.attention = placer.TakeFloats(kernels::kAttentionScratchFloats);
  }
  return placer.used();
}

Status CpuState::Allocate(MemoryPromise& memory, ThreadTeam& team, const std::vector<float>& rope_factors) {
  if (Status status = kv_store_.Allocate(memory, options_.kv_disk_folder); !status.ok()) return status;
  Result<HugeBuffer> activations = memory.Allocate(activation_bytes_, "activations");
  if (!activations.ok()) return activations.status();
  activations_ = std::move(*activations);
  PlaceActivations(activations_.data());

  const RopeTable rope = MakeRopeTable(config_.rope, rope_factors);
  team.Run([&](int lane) {
    const WorkShare share = WorkShare::Of(options_.limits.context_length, team.size(), lane);
    for (std::int64_t position = share.begin; position < share.end; ++position) {
      FillRopeRow(rope, static_cast<std::int32_t>(position), config_.head_dim,
                  rope_ + position * config_.head_dim);
    }
  });
  return {};
}

void CpuState::BeginStep(const kernels::StopSignal& stop) {
  stop_ = stop;
  stop_barrier_.store(kNoBarrier, std::memory_order_relaxed);
  for (std::int32_t layer = 0; layer < config_.layers; ++layer)
    next_item(layer).store(0, std::memory_order_relaxed);
  const std::span<const AttentionSplit> splits = layout_.splits();
  for (std::size_t i = 0; i < splits.size(); ++i) {
    for (std::int32_t head = 0; head < config_.kv_heads; ++head) {
      pieces_left(static_cast<std::int32_t>(i), head).store(splits[i].pieces, std::memory_order_relaxed);
    }
  }
}

}  // namespace skipjack
