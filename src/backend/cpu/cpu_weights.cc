#include "backend/cpu/cpu_weights.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/cpu/rope_rows.h"
#include "backend/cpu/work_share.h"

namespace skipjack {
namespace {

constexpr std::int64_t kMatrixAlignment = 4096;

kernels::SourceType SourceTypeOf(DType type) {
  return static_cast<kernels::SourceType>(
      static_cast<std::uint32_t>(type));  // both numbered as GGUF numbers them
}

std::int64_t RoundUp(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// One product makes gate and up, from one kind of activations: rare files that mix types without a common
// kind are multiplied in more bits there, all of which meet float32 in the end.
kernels::Precision GatePrecision(const LayerTensors& tensors, kernels::Precision precision,
                                 const kernels::KernelTable& table) {
  using kernels::Precision;
  for (const Precision candidate : {precision, Precision::k16Bit}) {
    const auto gate = kernels::FormatFor(SourceTypeOf(tensors.gate.dtype), candidate);
    const auto up = kernels::FormatFor(SourceTypeOf(tensors.up.dtype), candidate);
    if (!gate || !up) return precision;  // refused when it is planned
    if (table.ActivationFor(*gate) == table.ActivationFor(*up)) return candidate;
  }
  return Precision::kF32;
}

}  // namespace

Status CpuWeights::PlanMatrix(const TensorView& tensor, kernels::Precision precision, LinearWeights& target) {
  const std::optional<kernels::PackedFormat> format =
      kernels::FormatFor(SourceTypeOf(tensor.dtype), precision);
  if (!format) {
    return Status::Unimplemented("tensor " + tensor.name + ": the CPU engine cannot multiply with type " +
                                 std::string(Info(tensor.dtype).name));
  }
  kernels::PackedMatrix& matrix = target.matrix;
  matrix.format = *format;
  matrix.rows = tensor.rows();
  matrix.columns = tensor.columns();
  matrix.panel_bytes = kernels::PanelBytes(*format, tensor.columns());

  PackJob job;
  job.tensor = &tensor;
  job.target = &target;
  job.offset = packed_bytes_;
  job.share_panels = matrix.panels();
  jobs_.push_back(job);
  packed_bytes_ = RoundUp(packed_bytes_ + static_cast<std::int64_t>(
                                              kernels::PackedBytes(*format, tensor.rows(), tensor.columns())),
                          kMatrixAlignment);
  return {};
}

void CpuWeights::PlanFloats(const TensorView& tensor, const float*& target, bool rotated) {
  target = nullptr;
  if (tensor.empty()) return;
  float_jobs_.push_back({&tensor, &target, small_bytes_ / std::int64_t{sizeof(float)}, rotated});
  small_bytes_ = RoundUp(small_bytes_ + tensor.elements() * std::int64_t{sizeof(float)}, 64);
}

Status CpuWeights::PlanLayer(const LayerTensors& tensors, LayerWeights& layer, kernels::Precision precision,
                             const kernels::KernelTable& kernels) {
  PlanFloats(tensors.attention_norm, layer.attention_norm);
  PlanFloats(tensors.feed_forward_norm, layer.feed_forward_norm);

  const struct {
    const TensorView& tensor;
    const TensorView& bias;
    LinearWeights& target;
    bool rotated;
  } projections[] = {{tensors.query, tensors.query_bias, layer.query, true},
                     {tensors.key, tensors.key_bias, layer.key, true},
                     {tensors.value, tensors.value_bias, layer.value, false}};
  const std::size_t first = jobs_.size();
  std::int64_t panels = 0;
  for (const auto& projection : projections) {
    if (Status status = PlanMatrix(projection.tensor, precision, projection.target); !status.ok())
      return status;
    PlanFloats(projection.bias, projection.target.bias, projection.rotated);
    if (projection.rotated && rope_.style == RopeStyle::kHalves) {
      LastJob().rotated_heads = static_cast<std::int32_t>(projection.tensor.rows() / head_dim_);
    }
    LastJob().share_offset = panels;
    panels += projection.target.matrix.panels();
  }
  for (std::size_t i = first; i < jobs_.size(); ++i) jobs_[i].share_panels = panels;

  if (Status status = PlanMatrix(tensors.attention_output, precision, layer.attention_output); !status.ok()) {
    return status;
  }
  PlanFloats(tensors.attention_output_bias, layer.attention_output.bias);

  const kernels::Precision gate_precision = GatePrecision(tensors, precision, kernels);
  if (Status status = PlanMatrix(tensors.gate, gate_precision, layer.gate); !status.ok()) return status;
  LastJob().share_unit = kGatePanelUnit;
  if (Status status = PlanMatrix(tensors.up, gate_precision, layer.up); !status.ok()) return status;
  LastJob().share_unit = kGatePanelUnit;
  return PlanMatrix(tensors.down, precision, layer.down);
}

Result<std::unique_ptr<CpuWeights>> CpuWeights::Plan(const ModelSource& model, kernels::Precision precision,
                                                     const kernels::KernelTable& kernels) {
  std::unique_ptr<CpuWeights> weights(new CpuWeights());
  const ModelTensors& tensors = model.tensors();
  weights->rope_ = model.config().rope;
  weights->head_dim_ = model.config().head_dim;
  weights->layers_.resize(tensors.layers.size());
  for (std::size_t i = 0; i < tensors.layers.size(); ++i) {
    Status status = weights->PlanLayer(tensors.layers[i], weights->layers_[i], precision, kernels);
    if (!status.ok()) return status;
    weights->phase_ends_.push_back(weights->jobs_.size());
  }
  weights->PlanFloats(tensors.output_norm, weights->output_norm_);
  if (Status status = weights->PlanMatrix(tensors.output, precision, weights->head_); !status.ok())
    return status;
  weights->phase_ends_.push_back(weights->jobs_.size());

  const TensorView& embedding = tensors.token_embedding;
  Result<std::int64_t> row_bytes = RowBytes(embedding.dtype, embedding.columns());
  if (!row_bytes.ok()) return row_bytes.status();
  weights->embedding_type_ = embedding.dtype;
  weights->embedding_row_bytes_ = *row_bytes;
  weights->embedding_bytes_ = static_cast<std::int64_t>(embedding.data.size());
  return weights;
}

Status CpuWeights::Pack(const ModelSource& model, MemoryPromise& memory, ThreadTeam& team,
                        const LoadProgress& progress, const std::atomic<bool>* cancel) {
  const auto report = [&](double fraction) {
    if (progress) progress("packing weights", fraction);
  };
  report(0.0);
  Result<HugeBuffer> packed = memory.Allocate(packed_bytes_, "packed weights");
  Result<HugeBuffer> small = memory.Allocate(small_bytes_, "norms and biases");
  Result<HugeBuffer> table = memory.Allocate(embedding_bytes_, "the embedding table");
  for (const auto* buffer : {&packed, &small, &table}) {
    if (!buffer->ok()) return buffer->status();
  }
  packed_ = std::move(*packed);
  small_ = std::move(*small);
  embedding_ = std::move(*table);
  DecodeFloats();

  const std::span<const std::byte> embedding = model.tensors().token_embedding.data;
  std::size_t next = 0;
  Prefetch(model, 0);
  for (std::size_t phase = 0; phase < phase_ends_.size(); ++phase) {
    if (cancel != nullptr && *cancel) return Status::Cancelled("loading was cancelled");
    const std::size_t end = phase_ends_[phase];
    const bool last = phase + 1 == phase_ends_.size();
    if (!last) Prefetch(model, phase + 1);  // the disk works while this one is packed
    team.Run([&](int lane) {
      for (std::size_t i = next; i < end; ++i) PackShare(jobs_[i], team.size(), lane);
      if (!last) return;
      const WorkShare share = WorkShare::Of(embedding_bytes_, team.size(), lane, 4096);
      std::memcpy(embedding_.data() + share.begin, embedding.data() + share.begin,
                  static_cast<std::size_t>(share.size()));
    });
    for (; next < end; ++next) {
      jobs_[next].target->matrix.data = packed_.data() + jobs_[next].offset;
    }
    // What has been packed need not stay resident twice.
    model.DropMappedPages();
    report(static_cast<double>(phase + 1) / static_cast<double>(phase_ends_.size()));
  }
  jobs_ = {};
  float_jobs_ = {};
  return {};
}

void CpuWeights::Prefetch(const ModelSource& model, std::size_t phase) const {
  for (std::size_t i = phase == 0 ? 0 : phase_ends_[phase - 1]; i < phase_ends_[phase]; ++i)
    model.Prefetch(jobs_[i].tensor->data);
  if (phase + 1 == phase_ends_.size()) model.Prefetch(model.tensors().token_embedding.data);
}

void CpuWeights::PackShare(const PackJob& job, int lanes, int lane) {
  const kernels::PackedMatrix& matrix = job.target->matrix;
  const WorkShare share =
      WorkShare::Of(job.share_panels, lanes, lane, job.share_unit).Within(job.share_offset, matrix.panels());
  if (share.size() == 0) return;
  if (job.rotated_heads > 0) {
    std::vector<std::byte> rows;
    for (std::int64_t panel = share.begin; panel < share.end; ++panel) PackRotated(job, panel, rows);
    return;
  }
  const TensorView& tensor = *job.tensor;
  kernels::PackSource source;
  source.type = SourceTypeOf(tensor.dtype);
  source.data = tensor.data.data();
  source.row_bytes = tensor.data.size() / static_cast<std::size_t>(tensor.rows());
  source.rows = tensor.rows();
  source.columns = tensor.columns();
  kernels::PackPanels(
      matrix.format, source, share.begin, share.size(),
      packed_.data() + job.offset + share.begin * static_cast<std::int64_t>(matrix.panel_bytes));
}

// Packs one panel from a copy of its rows in the order that rotate_pairs wants.
void CpuWeights::PackRotated(const PackJob& job, std::int64_t panel, std::vector<std::byte>& rows) const {
  const TensorView& tensor = *job.tensor;
  const kernels::PackedMatrix& matrix = job.target->matrix;
  const std::int64_t first = panel * kernels::kPanelRows;
  kernels::PackSource source;
  source.type = SourceTypeOf(tensor.dtype);
  source.row_bytes = tensor.data.size() / static_cast<std::size_t>(tensor.rows());
  source.rows = std::min<std::int64_t>(kernels::kPanelRows, tensor.rows() - first);
  source.columns = tensor.columns();
  rows.resize(static_cast<std::size_t>(source.rows) * source.row_bytes);
  for (std::int64_t r = 0; r < source.rows; ++r) {
    const std::int64_t head = (first + r) / head_dim_;
    const auto index = static_cast<std::int32_t>((first + r) % head_dim_);
    const std::int64_t from = head * head_dim_ + RopeSourceIndex(rope_, index);
    std::memcpy(rows.data() + static_cast<std::size_t>(r) * source.row_bytes,
                tensor.data.data() + static_cast<std::size_t>(from) * source.row_bytes, source.row_bytes);
  }
  source.data = rows.data();
  kernels::PackPanels(matrix.format, source, 0, 1,
                      packed_.data() + job.offset + panel * static_cast<std::int64_t>(matrix.panel_bytes));
}

void CpuWeights::DecodeFloats() {
  std::vector<float> values;
  for (const FloatJob& job : float_jobs_) {
    const auto count = static_cast<std::size_t>(job.tensor->elements());
    float* out = small_.as<float>() + job.offset;
    *job.target = out;
    values.resize(count);
    Dequantize(job.tensor->dtype, job.tensor->data, values);
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t from = i;
      if (job.rotated) {
        const auto dim = static_cast<std::size_t>(head_dim_);
        from = i / dim * dim +
               static_cast<std::size_t>(RopeSourceIndex(rope_, static_cast<std::int32_t>(i % dim)));
      }
      out[i] = values[from];
    }
  }
}

void CpuWeights::Embed(TokenId token, std::span<float> hidden) const {
  const auto row_bytes = static_cast<std::size_t>(embedding_row_bytes_);
  Dequantize(embedding_type_, {embedding_.data() + static_cast<std::size_t>(token) * row_bytes, row_bytes},
             hidden);
}

}  // namespace skipjack
