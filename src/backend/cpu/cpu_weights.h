// The model's weights as the CPU engine reads them: matrices packed into panels in one arena, norms and
// biases as floats, the embedding table as the file stores it. Nothing refers to the model file after Pack().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/huge_buffer.h"
#include "backend/cpu/memory_ledger.h"
#include "backend/cpu/thread_team.h"
#include "backend/model_runner.h"
#include "base/status.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/packed_matrix.h"
#include "model/model_source.h"

namespace skipjack {

// A packed matrix and its bias (null: none).
struct LinearWeights {
  kernels::PackedMatrix matrix;
  const float* bias = nullptr;
};

struct LayerWeights {
  const float* attention_norm = nullptr;
  LinearWeights query, key, value;  // one list of panels in this order, shared out as a whole
  LinearWeights attention_output;
  const float* feed_forward_norm = nullptr;
  LinearWeights gate, up;  // same activation kind
  LinearWeights down;
};

// Panels of the gate and up matrices are shared out in pairs: 32 columns, a whole block of quantised
// activations.
inline constexpr std::int64_t kGatePanelUnit = 2;

class CpuWeights {
 public:
  // Formats and sizes only: what Pack() will need. Unimplemented when a tensor's type cannot be packed.
  static Result<std::unique_ptr<CpuWeights>> Plan(const ModelSource& model, kernels::Precision precision,
                                                  const kernels::KernelTable& kernels);

  // Bytes of all arenas.
  std::int64_t bytes() const { return packed_bytes_ + small_bytes_ + embedding_bytes_; }

  // Packs in parallel into memory out of `memory`: each lane the panels that it will multiply with. `model`
  // is the one of Plan(). Between layers it looks at `cancel`, which may be null.
  Status Pack(const ModelSource& model, MemoryPromise& memory, ThreadTeam& team, const LoadProgress& progress,
              const std::atomic<bool>* cancel);

  const LayerWeights& layer(std::int32_t index) const { return layers_[static_cast<std::size_t>(index)]; }
  const float* output_norm() const { return output_norm_; }
  const LinearWeights& head() const { return head_; }

  // Decodes one row of the embedding table. Thread-safe.
  void Embed(TokenId token, std::span<float> hidden) const;

 private:
  // One matrix to be packed, and where.
  struct PackJob {
    const TensorView* tensor = nullptr;
    LinearWeights* target = nullptr;
    std::int64_t offset = 0;        // in the arena
    std::int64_t share_offset = 0;  // its first panel in the list of panels that is shared out
    std::int64_t share_panels = 0;  // length of that list
    std::int64_t share_unit = 1;
    std::int32_t rotated_heads = 0;  // heads whose rows are put in the order of rotate_pairs; 0: none
  };
  // A vector to be decoded to floats.
  struct FloatJob {
    const TensorView* tensor = nullptr;
    const float** target = nullptr;
    std::int64_t offset = 0;  // floats
    bool rotated = false;
  };

  CpuWeights() = default;

  Status PlanLayer(const LayerTensors& tensors, LayerWeights& layer, kernels::Precision precision,
                   const kernels::KernelTable& kernels);
  Status PlanMatrix(const TensorView& tensor, kernels::Precision precision, LinearWeights& target);
  void PlanFloats(const TensorView& tensor, const float*& target, bool rotated = false);
  PackJob& LastJob() { return jobs_.back(); }
  // Asks for the tensors of a phase to be read from the disk.
  void Prefetch(const ModelSource& model, std::size_t phase) const;
  void PackShare(const PackJob& job, int lanes, int lane);
  void PackRotated(const PackJob& job, std::int64_t panel, std::vector<std::byte>& rows) const;
  void DecodeFloats();

  RopeConfig rope_;
  std::int32_t head_dim_ = 0;
  std::vector<LayerWeights> layers_;
  const float* output_norm_ = nullptr;
  LinearWeights head_;

  std::vector<PackJob> jobs_;
  std::vector<std::size_t> phase_ends_;  // jobs_ index behind each layer's and the head's jobs
  std::vector<FloatJob> float_jobs_;
  std::int64_t packed_bytes_ = 0;
  std::int64_t small_bytes_ = 0;
  std::int64_t embedding_bytes_ = 0;
  HugeBuffer packed_;
  HugeBuffer small_;
  HugeBuffer embedding_;
  DType embedding_type_ = DType::kF32;
  std::int64_t embedding_row_bytes_ = 0;
};

}  // namespace skipjack
