// Everything a step of the CPU engine writes: the KV pool and the activations, planned and allocated once.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/cpu/cpu_weights.h"
#include "backend/cpu/huge_buffer.h"
#include "backend/cpu/kv_geometry.h"
#include "backend/cpu/kv_store.h"
#include "backend/cpu/memory_ledger.h"
#include "backend/cpu/step_layout.h"
#include "backend/cpu/thread_team.h"
#include "backend/cpu/work_queue.h"
#include "base/status.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/stop_signal.h"
#include "model/model_source.h"

namespace skipjack {

// Set of kernels::ActivationKind, as bits.
using KindSet = std::uint8_t;

constexpr KindSet Contains(kernels::ActivationKind kind) {
  return static_cast<KindSet>(1U << static_cast<unsigned>(kind));
}
constexpr bool Has(KindSet kinds, kernels::ActivationKind kind) {
  return (kinds & Contains(kind)) != 0;
}

// Kinds that are made from floats.
inline constexpr std::array kConvertedKinds = {
    kernels::ActivationKind::kInt8, kernels::ActivationKind::kInt8Pairs, kernels::ActivationKind::kBFloat16};

// The same [rows, columns] activations in each of the kinds that some matrix wants.
struct ActivationRows {
  std::array<std::byte*, kernels::kActivationKinds> data{};
  std::array<std::size_t, kernels::kActivationKinds> row_bytes{};

  std::byte* Row(kernels::ActivationKind kind, std::int64_t row) const {
    const auto k = static_cast<std::size_t>(kind);
    return data[k] + static_cast<std::size_t>(row) * row_bytes[k];
  }
  float* FloatRow(std::int64_t row) const {
    return reinterpret_cast<float*>(Row(kernels::ActivationKind::kFloat32, row));
  }
  // Floats from one row to the next.
  std::int64_t float_stride() const { return static_cast<std::int64_t>(row_bytes[0] / sizeof(float)); }
  kernels::Activations Of(kernels::ActivationKind kind) const {
    return {kind, data[static_cast<std::size_t>(kind)], row_bytes[static_cast<std::size_t>(kind)]};
  }
};

// Which kinds of activations the matrices of one layer want.
struct LayerKinds {
  KindSet qkv = 0;
  KindSet attention_output = 0;
  KindSet gate_up = 0;
  KindSet down = 0;
};

// One lane's own memory.
struct LaneScratch {
  ActivationRows normed;       // rows that every lane prepares for itself (see CpuState::private_rows)
  float* row = nullptr;        // one row of hidden floats
  float* attention = nullptr;  // kernels::kAttentionScratchFloats
};

struct CpuStateOptions {
  RunnerLimits limits;
  KvGeometry kv;
  std::string kv_disk_folder;
  KindSet head_kinds = 0;
  std::int32_t lanes = 1;
};

// On a cache line of its own.
struct alignas(64) PaddedCounter {
  std::atomic<std::int32_t> value{0};
};

class CpuState {
 public:
  CpuState(const ModelConfig& config, const CpuStateOptions& options, std::vector<LayerKinds> kinds);

  // What Allocate() will take, for the check against the machine's memory before anything is read.
  std::int64_t kv_bytes() const { return kv_store_.device_bytes() + kv_store_.host_bytes(); }
  std::int64_t activation_bytes() const { return activation_bytes_; }

  // Allocates all out of `memory` and computes the rotation table on the team.
  Status Allocate(MemoryPromise& memory, ThreadTeam& team, const std::vector<float>& rope_factors);

  const ModelConfig& config() const { return config_; }
  const KvGeometry& kv() const { return options_.kv; }
  const RunnerLimits& limits() const { return options_.limits; }
  const LayerKinds& kinds(std::int32_t layer) const { return kinds_[static_cast<std::size_t>(layer)]; }
  KindSet head_kinds() const { return options_.head_kinds; }
  StepLayout& layout() { return layout_; }
  const StepLayout& layout() const { return layout_; }

  // Rows that a lane rather prepares all by itself than sharing the work and meeting the others at a barrier.
  std::int64_t private_rows() const { return private_rows_; }

  std::byte* pool() const { return kv_store_.device(); }
  KvStore& kv_store() { return kv_store_; }
  ActivationRows hidden, query, key_value, attended, gated, normed;  // [max_step_tokens, ...]
  float* logits = nullptr;                                           // [max_logits_rows, vocabulary]
  float* partials = nullptr;                                         // of split attention units
  LaneScratch& lane(int index) { return lanes_[static_cast<std::size_t>(index)]; }

  // The rotation of a position: head_dim / 2 pairs (cosine, sine).
  const float* RopeRow(std::int32_t position) const {
    return rope_ + static_cast<std::int64_t>(position) * config_.head_dim;
  }

  // Deals out the panels of every phase.
  WorkQueue& queue() { return queue_; }

  // Call before each step, after layout().Build(), with no lane running.
  void BeginStep(const kernels::StopSignal& stop);
  // Asks the step to stop.
  const kernels::StopSignal& stop() const { return stop_; }
  // The barrier after which all lanes end the step; lane 0 writes it, at most once a step, before that
  // barrier.
  std::atomic<std::uint64_t>& stop_barrier() { return stop_barrier_; }
  const std::atomic<std::uint64_t>& stop_barrier() const { return stop_barrier_; }
  static constexpr std::uint64_t kNoBarrier = ~std::uint64_t{0};
  // Hands out the step's attention items of a layer.
  std::atomic<std::int32_t>& next_item(std::int32_t layer) {
    return next_item_[static_cast<std::size_t>(layer)].value;
  }
  // Pieces of a split unit that a key/value head still lacks in the current layer.
  std::atomic<std::int32_t>& pieces_left(std::int32_t split, std::int32_t head) {
    return pieces_left_[static_cast<std::size_t>(split * config_.kv_heads + head)].value;
  }

 private:
  // Lays out the activations from address `base` (or only counts, for null); returns the bytes.
  std::int64_t PlaceActivations(std::byte* base);

  const ModelConfig config_;
  const CpuStateOptions options_;
  const std::vector<LayerKinds> kinds_;
  StepLayout layout_;
  KindSet all_qkv_ = 0;  // union over the layers
  KindSet all_attended_ = 0;
  KindSet all_down_ = 0;
  std::int64_t private_rows_ = 0;
  std::int64_t activation_bytes_ = 0;
  float* rope_ = nullptr;
  KvStore kv_store_;
  HugeBuffer activations_;
  std::vector<LaneScratch> lanes_;
  WorkQueue queue_;
  kernels::StopSignal stop_;
  std::atomic<std::uint64_t> stop_barrier_{kNoBarrier};
  std::unique_ptr<PaddedCounter[]> next_item_;
  std::unique_ptr<PaddedCounter[]> pieces_left_;
};

}  // namespace skipjack
