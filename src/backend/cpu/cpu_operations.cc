#include "backend/cpu/cpu_operations.h"

#include <cmath>
#include <cstring>

namespace skipjack {
namespace {

using kernels::ActivationKind;
using kernels::Epilogue;

}  // namespace

CpuOperations::CpuOperations(const CpuEngine& engine, int lane)
    : kernels_(engine.kernels),
      weights_(*engine.weights),
      state_(*engine.state),
      team_(*engine.team),
      kv_dtype_(engine.kv_dtype),
      lane_(lane),
      scratch_(state_.lane(lane)),
      config_(state_.config()),
      group_(config_.heads / config_.kv_heads) {}

// Lane 0 may name barrier k + 1 while another lane has not asked behind barrier k yet: k + 1 <= k does not
// hold, so that one goes on like all others.
void CpuOperations::Barrier() {
  ++barrier_;
  if (lane_ == 0 && MustStop() && !stopped()) {
    state_.stop_barrier().store(barrier_, std::memory_order_relaxed);
  }
  team_.Barrier(lane_);
}

void CpuOperations::Embed() {
  const WorkShare share = Share(rows());
  for (std::int64_t row = share.begin; row < share.end && !MustStop(); ++row) {
    weights_.Embed(state_.layout().tokens()[static_cast<std::size_t>(row)],
                   {state_.hidden.FloatRow(row), static_cast<std::size_t>(config_.hidden)});
  }
  Barrier();
}

void CpuOperations::Quantise(const float* x, std::int64_t first_column, std::int64_t columns, KindSet kinds,
                             const ActivationRows& out, std::int64_t row) const {
  for (const ActivationKind kind : kConvertedKinds) {
    if (!Has(kinds, kind)) continue;
    kernels_.linear->quantize(kind, x, columns,
                              out.Row(kind, row) + kernels::ActivationOffset(kind, first_column));
  }
}

void CpuOperations::NormRow(std::int32_t source, const float* weight, KindSet kinds,
                            const ActivationRows& out, std::int64_t row) {
  float* normed = Has(kinds, ActivationKind::kFloat32) ? out.FloatRow(row) : scratch_.row;
  kernels_.floats->elementwise.rms_norm(state_.hidden.FloatRow(source), weight, config_.hidden,
                                        config_.norm_epsilon, normed);
  Quantise(normed, 0, config_.hidden, kinds, out, row);
}

const ActivationRows& CpuOperations::NormRows(const float* weight, KindSet kinds, std::int64_t count,
                                              std::span<const std::int32_t> selected) {
  const bool alone = count <= state_.private_rows();
  const ActivationRows& out = alone ? scratch_.normed : state_.normed;
  const WorkShare share = alone ? WorkShare{0, count} : Share(count);
  for (std::int64_t i = share.begin; i < share.end && !MustStop(); ++i) {
    const std::int32_t source =
        selected.empty() ? static_cast<std::int32_t>(i) : selected[static_cast<std::size_t>(i)];
    NormRow(source, weight, kinds, out, i);
  }
  if (!alone) Barrier();
  return out;
}

void CpuOperations::Multiply(const Product& product) const {
  kernels::LinearArgs args;
  args.weights = &product.weights->matrix;
  args.bias = product.weights->bias;
  args.up = product.up == nullptr ? nullptr : &product.up->matrix;
  args.activations = product.activations->Of(kernels_.linear->ActivationFor(product.weights->matrix.format));
  args.rows = static_cast<std::int32_t>(product.rows);
  args.first_panel = product.panels.begin;
  args.panel_count = product.panels.size();
  args.out = product.out;
  args.out_stride = product.out_stride;
  args.epilogue = product.epilogue;
  args.stop = state_.stop();
  kernels_.linear->linear(args);
}

WorkShare CpuOperations::Columns(const LinearWeights& weights, WorkShare panels) {
  return {std::min(panels.begin * kernels::kPanelRows, weights.matrix.rows),
          std::min(panels.end * kernels::kPanelRows, weights.matrix.rows)};
}

void CpuOperations::AddToResidual(const LinearWeights& weights, const ActivationRows& activations) {
  ShareOut(weights.matrix.panels(), 1, [&](WorkShare panels) {
    Multiply({.weights = &weights,
              .panels = panels,
              .activations = &activations,
              .rows = rows(),
              .out = state_.hidden.FloatRow(0),
              .out_stride = state_.hidden.float_stride(),
              .epilogue = Epilogue::kAdd});
  });
}

void CpuOperations::NormQkvRopeWriteKv(std::int32_t layer) {
  const LayerWeights& weights = weights_.layer(layer);
  const ActivationRows& x = NormRows(weights.attention_norm, state_.kinds(layer).qkv, rows());
  const std::int64_t panels =
      weights.query.matrix.panels() + weights.key.matrix.panels() + weights.value.matrix.panels();
  ShareOut(panels, 1, [&](WorkShare part) { ProjectQkv(layer, x, part); });
  Barrier();
}

void CpuOperations::ProjectQkv(std::int32_t layer, const ActivationRows& x, WorkShare panels) {
  const LayerWeights& weights = weights_.layer(layer);
  const std::int64_t query_panels = weights.query.matrix.panels();
  const std::int64_t key_panels = weights.key.matrix.panels();
  const ActivationRows& kv = state_.key_value;
  if (const WorkShare part = panels.Within(0, query_panels); part.size() > 0) {
    Multiply({.weights = &weights.query,
              .panels = part,
              .activations = &x,
              .rows = rows(),
              .out = state_.query.FloatRow(0),
              .out_stride = state_.query.float_stride()});
    RotateQueries(Columns(weights.query, part));
  }
  if (const WorkShare part = panels.Within(query_panels, key_panels); part.size() > 0) {
    Multiply({.weights = &weights.key,
              .panels = part,
              .activations = &x,
              .rows = rows(),
              .out = kv.FloatRow(0),
              .out_stride = kv.float_stride()});
    StoreKeys(layer, Columns(weights.key, part));
  }
  if (const WorkShare part = panels.Within(query_panels + key_panels, weights.value.matrix.panels());
      part.size() > 0) {
    Multiply({.weights = &weights.value,
              .panels = part,
              .activations = &x,
              .rows = rows(),
              .out = kv.FloatRow(0) + weights.key.matrix.rows,
              .out_stride = kv.float_stride()});
    StoreValues(layer, Columns(weights.value, part));
  }
}

void CpuOperations::OutputProjectionResidual(std::int32_t layer) {
  const LayerWeights& weights = weights_.layer(layer);
  const KindSet kinds = state_.kinds(layer).attention_output;
  const ActivationRows* x = &state_.attended;
  if (!AttentionQuantises() && !Has(kinds, ActivationKind::kFloat32)) {
    const bool alone = rows() <= state_.private_rows();
    if (alone) x = &scratch_.normed;
    const WorkShare share = alone ? WorkShare{0, rows()} : Share(rows());
    for (std::int64_t row = share.begin; row < share.end && !MustStop(); ++row) {
      Quantise(state_.attended.FloatRow(row), 0, weights.attention_output.matrix.columns, kinds, *x, row);
    }
    if (!alone) Barrier();
  }
  AddToResidual(weights.attention_output, *x);
  Barrier();
}

void CpuOperations::NormGateUpActivation(std::int32_t layer) {
  const LayerWeights& weights = weights_.layer(layer);
  const ActivationRows& x = NormRows(weights.feed_forward_norm, state_.kinds(layer).gate_up, rows());
  ShareOut(weights.gate.matrix.panels(), kGatePanelUnit, [&](WorkShare panels) {
    Multiply({.weights = &weights.gate,
              .up = &weights.up,
              .panels = panels,
              .activations = &x,
              .rows = rows(),
              .out = state_.gated.FloatRow(0),
              .out_stride = state_.gated.float_stride(),
              .epilogue = Epilogue::kSwiGlu});
    const WorkShare columns = Columns(weights.gate, panels);
    for (std::int64_t row = 0; row < rows() && !MustStop(); ++row) {
      Quantise(state_.gated.FloatRow(row) + columns.begin, columns.begin, columns.size(),
               state_.kinds(layer).down, state_.gated, row);
    }
  });
  Barrier();
}

void CpuOperations::DownResidual(std::int32_t layer) {
  AddToResidual(weights_.layer(layer).down, state_.gated);
  Barrier();
}

void CpuOperations::HeadLogits() {
  const std::span<const std::int32_t> wanted = state_.layout().logits_rows();
  if (wanted.empty()) return;
  const auto count = static_cast<std::int64_t>(wanted.size());
  const ActivationRows& x = NormRows(weights_.output_norm(), state_.head_kinds(), count, wanted);
  const LinearWeights& head = weights_.head();
  ShareOut(head.matrix.panels(), 1, [&](WorkShare panels) {
    Multiply({.weights = &head,
              .panels = panels,
              .activations = &x,
              .rows = count,
              .out = state_.logits,
              .out_stride = config_.vocabulary_rows});
  });
}

void CpuOperations::RotateQueries(WorkShare columns) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
  for (std::int64_t row = 0; row < rows() && !MustStop(); ++row) {
    const float* table = state_.RopeRow(state_.layout().positions()[static_cast<std::size_t>(row)]);
    float* query = state_.query.FloatRow(row);
    for (std::int64_t begin = columns.begin; begin < columns.end;) {
      const std::int64_t dimension = begin % config_.head_dim;
      const std::int64_t end = std::min(columns.end, begin - dimension + config_.head_dim);
      kernels_.floats->elementwise.rotate_pairs(query + begin, table + dimension,
                                                static_cast<int>(end - begin) / 2, scale, query + begin);
      begin = end;
    }
  }
}

const void* CpuOperations::ToKvType(const float* x, std::int32_t count) {
  auto* converted = reinterpret_cast<std::uint16_t*>(scratch_.attention + kernels::kMaxHeadDim);
  switch (kv_dtype_) {
    case KvDType::kBF16:
      kernels_.floats->elementwise.to_bfloat16(x, count, converted);
      return converted;
    case KvDType::kF16:
      kernels_.floats->elementwise.to_half(x, count, converted);
      return converted;
    default:
      return x;
  }
}

namespace {

template <typename T>
void ScatterKey(const void* values, std::int64_t count, void* keys, std::int64_t first_element) {
  const T* from = static_cast<const T*>(values);
  T* to = static_cast<T*>(keys) + first_element;
  for (std::int64_t i = 0; i < count; ++i) to[i * kernels::kKeyLanes] = from[i];
}

}  // namespace

void CpuOperations::StoreKeys(std::int32_t layer, WorkShare columns) {
  const KvGeometry& kv = state_.kv();
  float* rotated = scratch_.attention;
  for (std::int64_t row = 0; row < rows() && !MustStop(); ++row) {
    const auto index = static_cast<std::size_t>(row);
    const float* table = state_.RopeRow(state_.layout().positions()[index]);
    const KvSlot slot = state_.layout().slots()[index];
    std::byte* block = state_.pool() + slot.block * kv.block_bytes();
    const float* key = state_.key_value.FloatRow(row);
    for (std::int64_t begin = columns.begin; begin < columns.end;) {
      const auto head = static_cast<std::int32_t>(begin / config_.head_dim);
      const auto dimension = static_cast<std::int32_t>(begin % config_.head_dim);
      const std::int64_t end = std::min<std::int64_t>(columns.end, std::int64_t{head + 1} * config_.head_dim);
      const auto count = static_cast<std::int32_t>(end - begin);
      kernels_.floats->elementwise.rotate_pairs(key + begin, table + dimension, count / 2, 1.0f, rotated);
      const void* converted = ToKvType(rotated, count);
      void* keys = block + kv.KeyOffset(layer, head);
      if (kv.element_bytes == 2) {
        ScatterKey<std::uint16_t>(converted, count, keys, kv.KeyElement(slot.slot, dimension));
      } else {
        ScatterKey<float>(converted, count, keys, kv.KeyElement(slot.slot, dimension));
      }
      begin = end;
    }
  }
}

void CpuOperations::StoreValues(std::int32_t layer, WorkShare columns) {
  const KvGeometry& kv = state_.kv();
  const std::int64_t key_columns = std::int64_t{config_.kv_heads} * config_.head_dim;
  for (std::int64_t row = 0; row < rows() && !MustStop(); ++row) {
    const KvSlot slot = state_.layout().slots()[static_cast<std::size_t>(row)];
    std::byte* block = state_.pool() + slot.block * kv.block_bytes();
    const float* value = state_.key_value.FloatRow(row) + key_columns;
    for (std::int64_t begin = columns.begin; begin < columns.end;) {
      const auto head = static_cast<std::int32_t>(begin / config_.head_dim);
      const auto dimension = static_cast<std::int32_t>(begin % config_.head_dim);
      const std::int64_t end = std::min<std::int64_t>(columns.end, std::int64_t{head + 1} * config_.head_dim);
      const auto count = static_cast<std::int32_t>(end - begin);
      std::byte* values = block + kv.ValueOffset(layer, head);
      std::memcpy(values + kv.ValueElement(slot.slot, dimension) * kv.element_bytes,
                  ToKvType(value + begin, count), static_cast<std::size_t>(count * kv.element_bytes));
      begin = end;
    }
  }
}

}  // namespace skipjack
