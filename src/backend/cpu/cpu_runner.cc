#include "backend/cpu/cpu_runner.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/cpu_operations.h"
#include "backend/cpu/cpu_state.h"
#include "backend/cpu/cpu_weights.h"
#include "backend/cpu/kv_geometry.h"
#include "backend/cpu/memory_ledger.h"
#include "backend/cpu/thread_team.h"
#include "backend/decoder.h"
#include "model/rope.h"

namespace skipjack {
namespace {

constexpr int kMaxThreads = 1024;

KvDType ResolveKvDType(const CpuRunnerOptions& options) {
  if (options.kv_dtype != KvDType::kAuto) return options.kv_dtype;
  return options.compute == ComputeType::kF32 ? KvDType::kF32 : KvDType::kF16;
}

KvGeometry GeometryOf(const ModelConfig& config, const CpuRunnerOptions& options) {
  const bool full = ResolveKvDType(options) == KvDType::kF32;
  return KvGeometry::Of(config, options.limits.block_tokens, full ? 4 : 2);
}

bool IsQuantised(const TensorView& tensor) {
  return Info(tensor.dtype).block_elements > 1;
}

ComputeType ResolveCompute(ComputeType wanted, const ModelTensors& tensors) {
  if (wanted != ComputeType::kAuto) return wanted;
  for (const LayerTensors& layer : tensors.layers) {
    for (const TensorView* tensor :
         {&layer.query, &layer.value, &layer.attention_output, &layer.gate, &layer.down}) {
      if (IsQuantised(*tensor)) return ComputeType::kInt8;
    }
  }
  return IsQuantised(tensors.output) ? ComputeType::kInt8 : ComputeType::kBF16;
}

kernels::Precision PrecisionOf(ComputeType compute) {
  switch (compute) {
    case ComputeType::kF32:
      return kernels::Precision::kF32;
    case ComputeType::kBF16:
      return kernels::Precision::k16Bit;
    default:
      return kernels::Precision::kInt8;
  }
}

const char* Name(ComputeType compute) {
  switch (compute) {
    case ComputeType::kF32:
      return "f32";
    case ComputeType::kBF16:
      return "bf16";
    default:
      return "int8";
  }
}

const char* Name(KvDType type) {
  switch (type) {
    case KvDType::kF32:
      return "f32";
    case KvDType::kBF16:
      return "bf16";
    default:
      return "f16";
  }
}

Status CheckRange(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return Status::InvalidArgument(std::string(name) + " must lie in [" + std::to_string(low) + ", " +
                                 std::to_string(high) + "], got " + std::to_string(value));
}

Status CheckOptions(const ModelConfig& config, const CpuRunnerOptions& options) {
  constexpr std::int64_t kMany = 1 << 20;
  constexpr std::int64_t kMostBlocks = std::int64_t{1} << 29;  // of one tier: all of them have 32-bit numbers
  const RunnerLimits& limits = options.limits;
  const struct {
    const char* name;
    std::int64_t value, low, high;
  } ranges[] = {{"threads", options.threads, 0, kMaxThreads},
                {"kv block_tokens", limits.block_tokens, kernels::kKeyLanes, 4096},
                {"kv blocks", limits.kv_blocks, 1, kMostBlocks},
                {"kv host blocks", limits.host_blocks, 0, kMostBlocks},
                {"kv disk blocks", limits.disk_blocks, 0, kMostBlocks},
                {"max_step_tokens", limits.max_step_tokens, 1, kMany},
                {"max_slices", limits.max_slices, 1, kMany},
                {"max_logits_rows", limits.max_logits_rows, 1, kMany},
                {"context_length", limits.context_length, 1, std::int64_t{1} << 24},
                {"head_dim of the model", config.head_dim, 2, kernels::kMaxHeadDim}};
  for (const auto& range : ranges) {
    if (Status status = CheckRange(range.name, range.value, range.low, range.high); !status.ok())
      return status;
  }
  if (limits.block_tokens % kernels::kKeyLanes != 0) {
    return Status::InvalidArgument("kv block_tokens must be a multiple of " +
                                   std::to_string(kernels::kKeyLanes) + ", got " +
                                   std::to_string(limits.block_tokens));
  }
  if (config.head_dim % 2 != 0) {
    return Status::Unimplemented("head_dim of the model must be even, got " +
                                 std::to_string(config.head_dim));
  }
  std::int64_t pool_bytes = 0;
  const std::int64_t blocks = std::int64_t{limits.kv_blocks} + limits.host_blocks + limits.disk_blocks;
  if (__builtin_mul_overflow(GeometryOf(config, options).block_bytes(), blocks, &pool_bytes)) {
    return Status::InvalidArgument("kv blocks: " + std::to_string(blocks) + " blocks of " +
                                   std::to_string(GeometryOf(config, options).block_bytes()) +
                                   " bytes are more than can be addressed");
  }
  return {};
}

LayerKinds KindsOf(const LayerWeights& layer, const kernels::KernelTable& table) {
  const auto kind = [&](const LinearWeights& weights) {
    return Contains(table.ActivationFor(weights.matrix.format));
  };
  LayerKinds kinds;
  kinds.qkv = kind(layer.query) | kind(layer.key) | kind(layer.value);
  kinds.attention_output = kind(layer.attention_output);
  kinds.gate_up = kind(layer.gate);
  kinds.down = kind(layer.down);
  return kinds;
}

class CpuRunner final : public ModelRunner {
 public:
  // `ledger`: where the memory comes from.
  static Result<std::unique_ptr<ModelRunner>> Create(const ModelSource& model,
                                                     const CpuRunnerOptions& options,
                                                     const CpuKernelSet& kernels, const MemoryLedger& ledger,
                                                     const LoadProgress& progress);

  Result<StepLogits> Forward(const StepBatch& batch) override;

  void CopyBlocks(std::span<const BlockCopy> copies, CopyReport* report) override {
    state_.kv_store().Copy(copies, report);
  }

  void ParallelFor(std::int32_t count, const std::function<void(std::int32_t)>& body) override {
    team_.ParallelFor(count, body);
  }
  std::int32_t vocabulary() const override { return state_.config().vocabulary_rows; }
  std::string description() const override { return description_; }

 private:
  CpuRunner(const ModelConfig& config, const CpuStateOptions& state, std::vector<LayerKinds> kinds,
            std::unique_ptr<CpuWeights> weights, const ThreadTeamOptions& team)
      : weights_(std::move(weights)), state_(config, state, std::move(kinds)), team_(team) {}

  Result<MemoryPromise> PromiseMemory(const MemoryLedger& ledger) const;

  std::unique_ptr<CpuWeights> weights_;
  CpuState state_;
  ThreadTeam team_;
  std::vector<CpuOperations> lanes_;
  std::string description_;
  MemoryPromise memory_;  // destroyed before the buffers that it counts
};

Result<MemoryPromise> CpuRunner::PromiseMemory(const MemoryLedger& ledger) const {
  return ledger.Promise(weights_->bytes() + state_.kv_bytes() + state_.activation_bytes(), "the model",
                        "weights " + std::to_string(weights_->bytes()) + ", KV cache " +
                            std::to_string(state_.kv_bytes()) + ", activations " +
                            std::to_string(state_.activation_bytes()));
}

Result<std::unique_ptr<ModelRunner>> CpuRunner::Create(const ModelSource& model,
                                                       const CpuRunnerOptions& options,
                                                       const CpuKernelSet& kernels,
                                                       const MemoryLedger& ledger,
                                                       const LoadProgress& progress) {
  const ModelConfig& config = model.config();
  const ComputeType compute = ResolveCompute(options.compute, model.tensors());
  const kernels::KernelTable& table = *kernels.linear;
  Result<std::unique_ptr<CpuWeights>> weights = CpuWeights::Plan(model, PrecisionOf(compute), table);
  if (!weights.ok()) return weights.status();

  const int available = AvailableThreads();
  ThreadTeamOptions team;
  team.threads = options.threads > 0 ? options.threads : available;
  if (team.threads > available)
    team.max_spin = {};  // lanes that share a core must not spin against each other

  std::vector<LayerKinds> kinds;
  for (std::int32_t layer = 0; layer < config.layers; ++layer)
    kinds.push_back(KindsOf((*weights)->layer(layer), table));
  CpuStateOptions state;
  state.limits = options.limits;
  state.kv = GeometryOf(config, options);
  state.kv_disk_folder = options.kv_disk_folder;
  state.head_kinds = Contains(table.ActivationFor((*weights)->head().matrix.format));
  state.lanes = team.threads;

  std::unique_ptr<CpuRunner> runner(
      new CpuRunner(config, state, std::move(kinds), std::move(*weights), team));
  Result<MemoryPromise> memory = runner->PromiseMemory(ledger);
  if (!memory.ok()) return memory.status();
  runner->memory_ = std::move(*memory);
  Status packed = runner->weights_->Pack(model, runner->memory_, runner->team_, progress, options.cancel);
  if (!packed.ok()) return packed;
  const std::vector<float> factors = ReadRopeFactors(model.tensors().rope_factors);
  if (Status status = runner->state_.Allocate(runner->memory_, runner->team_, factors); !status.ok())
    return status;

  CpuEngine engine;
  engine.kernels = kernels;
  engine.weights = runner->weights_.get();
  engine.state = &runner->state_;
  engine.team = &runner->team_;
  engine.kv_dtype = ResolveKvDType(options);
  runner->lanes_.reserve(static_cast<std::size_t>(team.threads));
  for (int lane = 0; lane < team.threads; ++lane) runner->lanes_.emplace_back(engine, lane);
  runner->description_ = std::string("cpu ") + table.name + " " + Name(compute) +
                         " kv=" + Name(engine.kv_dtype) + " threads=" + std::to_string(team.threads);
  return std::unique_ptr<ModelRunner>(std::move(runner));
}

Result<StepLogits> CpuRunner::Forward(const StepBatch& batch) {
  if (Status status = state_.layout().Build(batch); !status.ok()) return status;
  kernels::StopSignal stop;
  if (batch.interrupt != nullptr) stop = {batch.interrupt->word(), batch.ticket};
  state_.BeginStep(stop);
  const std::int32_t layers = state_.config().layers;
  team_.Run([&](int lane) { RunDecoder(layers, lanes_[static_cast<std::size_t>(lane)]); });
  // Whoever left something out saw the signal raised, and it stays so.
  if (stop.IsRaised()) return Status(StatusCode::kAborted, "the step was interrupted");

  StepLogits logits;
  logits.rows = static_cast<std::int32_t>(state_.layout().logits_rows().size());
  logits.vocabulary = vocabulary();
  logits.data = {state_.logits,
                 static_cast<std::size_t>(logits.rows) * static_cast<std::size_t>(logits.vocabulary)};
  return logits;
}

}  // namespace

KvLayout CpuKvLayout(const ModelConfig& config, const CpuRunnerOptions& options) {
  return {GeometryOf(config, options).block_bytes()};
}

Result<std::unique_ptr<ModelRunner>> CreateCpuRunner(std::shared_ptr<const ModelSource> model,
                                                     const CpuRunnerOptions& options,
                                                     const LoadProgress& progress, const CpuHost& host) {
  if (Status status = CheckOptions(model->config(), options); !status.ok()) return status;
  const std::vector<CpuKernelSet> offered = host.kernels != nullptr ? *host.kernels : MachineKernels();
  const Result<KernelChoice> choice =
      ChooseKernels(offered, options.isa, ResolveCompute(options.compute, model->tensors()));
  if (!choice.ok()) return choice.status();
  for (const std::string& rejected : choice->rejected) {
    spdlog::warn("CPU kernels failed their self-test on this machine and are not used: {}", rejected);
  }
  const MemoryLedger alone;
  return CpuRunner::Create(*model, options, choice->kernels, host.memory != nullptr ? *host.memory : alone,
                           progress);
}

}  // namespace skipjack
