// The fused operations on the CPU, as one lane of the team executes its part of them. All lanes run the same
// sequence of operations; each ends where the next one may read what all lanes wrote (see thread_team.h).
//
// Five phases per layer, each a barrier: norm + QKV + rotation + KV write | attention | output projection |
// norm + gate/up + activation + quantisation | down projection. Large steps share the norm, which takes a
// barrier more.
//
// A step that is interrupted is left in two stages. A lane that sees the signal, between two pieces of work
// or inside a kernel, leaves the rest of its work out and goes on to the next barrier; what it did not write,
// others may read as garbage until they see the signal too. Before each barrier lane 0 looks, and names that
// barrier as the last one that counts: behind it all lanes find the step stopped, or none does.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_state.h"
#include "backend/cpu/cpu_weights.h"
#include "backend/cpu/thread_team.h"
#include "backend/cpu/work_queue.h"
#include "backend/cpu/work_share.h"
#include "backend/operations.h"

namespace skipjack {

// What all lanes share.
struct CpuEngine {
  CpuKernelSet kernels;
  const CpuWeights* weights = nullptr;
  CpuState* state = nullptr;
  ThreadTeam* team = nullptr;
  KvDType kv_dtype = KvDType::kF16;
};

class CpuOperations final : public Operations {
 public:
  CpuOperations(const CpuEngine& engine, int lane);

  void Embed() override;
  void NormQkvRopeWriteKv(std::int32_t layer) override;
  void Attention(std::int32_t layer) override;
  void OutputProjectionResidual(std::int32_t layer) override;
  void NormGateUpActivation(std::int32_t layer) override;
  void DownResidual(std::int32_t layer) override;
  void HeadLogits() override;
  bool stopped() const override { return state_.stop_barrier().load(std::memory_order_relaxed) <= barrier_; }

 private:
  std::int64_t rows() const { return state_.layout().rows(); }
  WorkShare Share(std::int64_t count) const { return WorkShare::Of(count, team_.size(), lane_); }
  bool MustStop() const { return state_.stop().IsRaised(); }
  void Barrier();

  // body(WorkShare) over parts of [0, count) that are this lane's, or that another has not come to yet.
  template <typename Body>
  void ShareOut(std::int64_t count, std::int64_t unit, Body&& body) {
    state_.queue().Run(lane_, phase_++, count, unit, [&](WorkShare part) {
      if (!MustStop()) body(part);
    });
  }

  // RMSNorm of rows of `hidden` in the wanted kinds: row i is hidden[selected[i]], or hidden[i] with no
  // selection. May meet the other lanes at a barrier (all or none do).
  const ActivationRows& NormRows(const float* weight, KindSet kinds, std::int64_t count,
                                 std::span<const std::int32_t> selected = {});
  void NormRow(std::int32_t source, const float* weight, KindSet kinds, const ActivationRows& out,
               std::int64_t row);
  void Quantise(const float* x, std::int64_t first_column, std::int64_t columns, KindSet kinds,
                const ActivationRows& out, std::int64_t row) const;

  struct Product {
    const LinearWeights* weights = nullptr;
    const LinearWeights* up = nullptr;  // kSwiGlu
    WorkShare panels;
    const ActivationRows* activations = nullptr;
    std::int64_t rows = 0;
    float* out = nullptr;
    std::int64_t out_stride = 0;
    kernels::Epilogue epilogue = kernels::Epilogue::kStore;
  };
  void Multiply(const Product& product) const;
  // hidden += activations * weights (+ bias)
  void AddToResidual(const LinearWeights& weights, const ActivationRows& activations);

  // Columns of a matrix that a share of its panels makes.
  static WorkShare Columns(const LinearWeights& weights, WorkShare panels);
  // The fused projections of a part of their panels, and what becomes of the columns.
  void ProjectQkv(std::int32_t layer, const ActivationRows& x, WorkShare panels);
  void RotateQueries(WorkShare columns);
  void StoreKeys(std::int32_t layer, WorkShare columns);
  void StoreValues(std::int32_t layer, WorkShare columns);
  // Converts to the cache's type, in the lane's scratch.
  const void* ToKvType(const float* x, std::int32_t count);

  void AttendUnit(std::int32_t layer, const AttentionUnit& unit, std::int32_t kv_head);
  // The activations of `attended` are quantised by the attention itself when a group of heads is whole
  // blocks.
  bool AttentionQuantises() const;

  const CpuKernelSet kernels_;
  const CpuWeights& weights_;
  CpuState& state_;
  ThreadTeam& team_;
  const KvDType kv_dtype_;
  const int lane_;
  LaneScratch& scratch_;
  const ModelConfig& config_;
  const std::int32_t group_;
  std::uint64_t phase_ = 0;    // of the work queue; the same on every lane
  std::uint64_t barrier_ = 0;  // the last one passed; likewise
};

}  // namespace skipjack
