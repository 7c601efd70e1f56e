#include "registry/model_loader.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "backend/cpu/cpu_runner.h"
#include "backend/cpu/memory_ledger.h"
#include "model/gguf_file.h"
#include "registry/kv_budget.h"
#include "registry/latency_cache.h"
#include "registry/tokenizer_source.h"
#include "sched/check_config.h"

namespace skipjack {
namespace {

constexpr std::int64_t kMaxTemplateBytes = 1 << 20;
// What a warm-up may add to the time until a model is ready.
constexpr Duration kWarmUpBudget = std::chrono::milliseconds(300);

// The words of the configuration file, checked when it was read.
Result<ComputeType> ParseCompute(const std::string& word) {
  static const std::map<std::string, ComputeType> known = {{"auto", ComputeType::kAuto},
                                                           {"f32", ComputeType::kF32},
                                                           {"bf16", ComputeType::kBF16},
                                                           {"int8", ComputeType::kInt8}};
  if (const auto it = known.find(word); it != known.end()) return it->second;
  return Status::InvalidArgument(fmt::format("compute: unknown type '{}' (auto, f32, bf16, int8)", word));
}

Result<Isa> ParseIsa(const std::string& word) {
  static const std::map<std::string, Isa> known = {
      {"auto", Isa::kAuto}, {"generic", Isa::kGeneric}, {"avx2", Isa::kAvx2}, {"avx512", Isa::kAvx512}};
  if (const auto it = known.find(word); it != known.end()) return it->second;
  return Status::InvalidArgument(
      fmt::format("isa: unknown instruction set '{}' (auto, generic, avx2, avx512)", word));
}

Result<KvDType> ParseKvDType(const std::string& word) {
  static const std::map<std::string, KvDType> known = {
      {"auto", KvDType::kAuto}, {"f32", KvDType::kF32}, {"f16", KvDType::kF16}, {"bf16", KvDType::kBF16}};
  if (const auto it = known.find(word); it != known.end()) return it->second;
  return Status::InvalidArgument(fmt::format("kv.dtype: unknown type '{}' (auto, f32, f16, bf16)", word));
}

// The words have been checked by the configuration.
SwapMode ParseSwapMode(const std::string& word) {
  if (word == "recompute") return SwapMode::kRecompute;
  return word == "reactive" ? SwapMode::kReactive : SwapMode::kProactive;
}

// What was configured but is not there is refused, never replaced by something slower.
Status CheckAvailable(const ModelEntry& entry) {
  if (entry.backend == "cuda") {
    return Status::FailedPrecondition(
        "backend: cuda was asked for, but this version computes on the CPU only (use cpu or auto)");
  }
  if (entry.backend != "cpu" && entry.backend != "auto") {
    return Status::InvalidArgument(
        fmt::format("backend: unknown backend '{}' (auto, cpu, cuda)", entry.backend));
  }
  return {};
}

// "q4_1": the type that most of the weights have.
std::string WeightType(const GgufFile& file) {
  std::map<DType, std::size_t> bytes;
  for (const TensorView& tensor : file.tensors()) bytes[tensor.dtype] += tensor.data.size();
  if (bytes.empty()) return "no weights";
  const auto largest = std::max_element(bytes.begin(), bytes.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string name(Info(largest->first).name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

Result<std::string> ReadTemplateFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return Status::NotFound(fmt::format("chat_template: cannot open '{}'", path));
  const std::int64_t size = in.tellg();
  if (size > kMaxTemplateBytes) {
    return Status::InvalidArgument(
        fmt::format("chat_template: '{}' has {} bytes, at most {} are read", path, size, kMaxTemplateBytes));
  }
  in.seekg(0);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

// A configured template must be usable. The model's own may be beyond us: then the model serves all but chat.
Status AttachChatTemplate(const ModelEntry& entry, const GgufFile& file, ServedModel* model) {
  if (!entry.chat_template.empty()) {
    const Result<std::string> source = ReadTemplateFile(entry.chat_template);
    if (!source.ok()) return source.status();
    auto parsed = ChatTemplate::Parse(*source);
    if (!parsed.ok()) {
      return Status(parsed.status().code(),
                    fmt::format("chat_template '{}': {}", entry.chat_template, parsed.status().message()));
    }
    model->chat_template = *std::move(parsed);
    return {};
  }
  const Result<std::optional<std::string>> source = ReadChatTemplate(file);
  if (!source.ok()) return source.status();
  if (!source->has_value()) return {};
  auto parsed = ChatTemplate::Parse(**source);
  if (parsed.ok()) {
    model->chat_template = *std::move(parsed);
  } else {
    model->chat_template_error = parsed.status();
    spdlog::warn("model '{}': its chat template cannot be used ({}); chat requests will be refused",
                 model->name, parsed.status().message());
  }
  return {};
}

Status AttachTokenizer(const ModelEntry& entry, const ModelSource& source, ServedModel* model) {
  Result<TokenizerSpec> spec = ReadTokenizerSpec(source.file(), entry.pre_tokenizer);
  if (!spec.ok()) return spec.status();
  Result<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::Create(*std::move(spec));
  if (!tokenizer.ok()) return tokenizer.status();
  model->tokenizer = *std::move(tokenizer);
  const Tokenizer& made = *model->tokenizer;
  if (made.bos()) model->bos_token = made.TokenBytes(*made.bos());
  if (made.eos()) model->eos_token = made.TokenBytes(*made.eos());
  model->end_tokens = made.EndOfGenerationTokens();
  model->end_strings = entry.stop;
  return {};
}

Result<CpuRunnerOptions> PlanRunner(const ModelEntry& entry, const ModelConfig& config,
                                    const MemoryLedger& memory, const std::atomic<bool>* cancel) {
  const Result<ComputeType> compute = ParseCompute(entry.compute);
  if (!compute.ok()) return compute.status();
  const Result<Isa> isa = ParseIsa(entry.isa);
  if (!isa.ok()) return isa.status();
  const Result<KvDType> kv_dtype = ParseKvDType(entry.kv.dtype);
  if (!kv_dtype.ok()) return kv_dtype.status();
  CpuRunnerOptions options{.compute = *compute,
                           .isa = *isa,
                           .kv_dtype = *kv_dtype,
                           .threads = entry.threads,
                           .limits = {},
                           .kv_disk_folder = entry.kv.disk_path,
                           .cancel = cancel};
  RunnerLimits& limits = options.limits;
  limits.block_tokens = entry.kv.block_tokens;
  limits.max_step_tokens = entry.scheduler.max_batch_tokens;
  limits.max_slices = entry.scheduler.max_sequences;
  limits.max_logits_rows = entry.scheduler.max_sequences;
  limits.context_length = config.context_length;
  const Result<KvBudget> budget =
      PlanKvBudget(entry, {.model_context = config.context_length,
                           .block_bytes = CpuKvLayout(config, options).block_bytes,
                           .machine_bytes = memory.machine_bytes()});
  if (!budget.ok()) return budget.status();
  limits.kv_blocks = budget->blocks;
  limits.host_blocks = budget->host_blocks;
  limits.disk_blocks = budget->disk_blocks;
  limits.context_length = budget->context_length;
  return options;
}

EngineOptions PlanEngine(const ModelEntry& entry, const RunnerLimits& limits,
                         std::int32_t max_waiting_sequences, const ServedModel& model) {
  EngineOptions options;
  const SchedulerSettings& scheduler = entry.scheduler;
  options.scheduler = {.policy = scheduler.policy,
                       .settings = {.quantum = FromSeconds(scheduler.quantum_seconds),
                                    .starvation_bound = FromSeconds(scheduler.starvation_bound_seconds),
                                    .ageing_bound = FromSeconds(scheduler.ageing_bound_seconds),
                                    .hysteresis = scheduler.hysteresis_percent / 100.0},
                       .max_lost_part = scheduler.max_lost_percent / 100.0,
                       .tenant_fairness = scheduler.tenant_fairness,
                       .token_gap_target = FromSeconds(scheduler.token_gap_target_seconds),
                       .max_batch_tokens = limits.max_step_tokens,
                       .max_sequences = limits.max_slices,
                       .max_queued = max_waiting_sequences,
                       .block_tokens = limits.block_tokens,
                       .kv_blocks = limits.kv_blocks,
                       .host_blocks = limits.host_blocks,
                       .disk_blocks = limits.disk_blocks,
                       .swap = ParseSwapMode(entry.kv.swap),
                       .context_length = limits.context_length,
                       .prefix_cache = entry.kv.prefix_cache};
  if (model.sampled_ids() < model.config.vocabulary_rows) options.max_sampled_id = model.sampled_ids();
  options.max_interrupted_part = scheduler.max_interrupted_percent / 100.0;
  options.warm_up = kWarmUpBudget;
  options.record = scheduler.record;
  return options;
}

// What an earlier run learnt of this model on such a runner. The scheduler starts from it, and it is kept for
// the next.
void AttachLatencyMemory(const ModelEntry& entry, const GgufFile& file, const ModelRunner& runner,
                         SchedulerConfig* scheduler, ServedModel* model) {
  const std::string folder = CacheFolder(entry.cache_dir, file.path());
  if (folder.empty()) return;
  const Result<LatencyKey> key = MakeLatencyKey(file.paths(), runner.description());
  if (!key.ok()) return;  // the file was replaced while it was read: what is learnt belongs to nobody
  model->latency_memory = std::make_shared<LatencyMemory>(entry.name, LatencyCachePath(folder, *key), *key);
  scheduler->latency = model->latency_memory->Recall();
}

std::int64_t UnixSeconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

Result<std::shared_ptr<ServedModel>> LoadServedModel(const ModelEntry& entry,
                                                     std::int32_t max_waiting_sequences, LoadHooks hooks) {
  if (Status s = CheckAvailable(entry); !s.ok()) return s;
  const LoadProgress progress = [&](const std::string& phase, double fraction) {
    if (hooks.progress) hooks.progress(phase, fraction);
  };
  const MemoryLedger alone;
  const MemoryLedger& memory = hooks.memory != nullptr ? *hooks.memory : alone;
  auto model = std::make_shared<ServedModel>();
  model->name = entry.name;

  progress("reading the file", 0.0);
  const Result<std::shared_ptr<const ModelSource>> source = ModelSource::Open(entry.path);
  if (!source.ok()) return source.status();
  model->config = (*source)->config();

  progress("building the tokenizer", 0.0);
  if (Status s = AttachTokenizer(entry, **source, model.get()); !s.ok()) return s;
  if (Status s = AttachChatTemplate(entry, (*source)->file(), model.get()); !s.ok()) return s;

  const Result<CpuRunnerOptions> plan = PlanRunner(entry, model->config, memory, hooks.cancel);
  if (!plan.ok()) return plan.status();
  model->context_length = plan->limits.context_length;
  model->block_tokens = plan->limits.block_tokens;
  model->block_bytes = CpuKvLayout(model->config, *plan).block_bytes;
  if (model->context_length < model->config.context_length && entry.context_length == 0) {
    spdlog::warn("model '{}': KV memory holds a context of {} tokens, the model could use {}", entry.name,
                 model->context_length, model->config.context_length);
  }
  // What the engine would refuse, before the weights are packed for it.
  EngineOptions options = PlanEngine(entry, plan->limits, max_waiting_sequences, *model);
  if (Status s = CheckSchedulerConfig(options.scheduler); !s.ok()) return s;
  Result<std::unique_ptr<ModelRunner>> runner =
      CreateCpuRunner(*source, *plan, progress, {.memory = &memory});
  if (!runner.ok()) return runner.status();
  model->description = fmt::format("{} {} layers, {}, {}", model->config.architecture, model->config.layers,
                                   WeightType((*source)->file()), (*runner)->description());

  AttachLatencyMemory(entry, (*source)->file(), **runner, &options.scheduler, model.get());

  progress("warming up", 0.0);
  options.on_broken = std::move(hooks.on_broken);
  Result<std::unique_ptr<Engine>> engine =
      Engine::Create(*std::move(runner), options, std::move(hooks.observer));
  if (!engine.ok()) return engine.status();
  model->engine = *std::move(engine);
  model->created_unix_seconds = UnixSeconds();
  return model;
}

}  // namespace skipjack
