#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "embed/generation.h"
#include "registry/model_loader.h"
#include "sampling/sampling_params.h"

namespace skipjack::embed {
namespace {

ModelEntry ToEntry(const LoadOptions& options) {
  ModelEntry entry;
  entry.name = "embedded";
  entry.path = options.path;
  entry.compute = options.compute;
  entry.isa = options.isa;
  entry.threads = options.threads;
  entry.context_length = options.context_length;
  entry.chat_template = options.chat_template_path;
  entry.kv.device_memory = options.kv_memory_bytes;
  entry.kv.dtype = options.kv_dtype;
  entry.kv.prefix_cache = options.prefix_cache;
  entry.scheduler.max_sequences = options.max_sequences;
  entry.scheduler.max_batch_tokens = options.max_batch_tokens;
  return entry;
}

// The daemon's configuration file checks these; here we must. What contradicts each other the loader refuses.
Status CheckOptions(const LoadOptions& options) {
  struct Check {
    const char* name;
    std::int64_t value;
    std::int64_t low;
    std::int64_t high;
  };
  const Check checks[] = {
      {"threads", options.threads, 0, 1024},
      {"context_length", options.context_length, 0, 1 << 24},
      {"kv_memory_bytes", options.kv_memory_bytes, 0, std::int64_t{1} << 50},
      {"max_sequences", options.max_sequences, 1, 4096},
      {"max_batch_tokens", options.max_batch_tokens, 1, 1 << 20},
      {"max_queued", options.max_queued, 1, 1 << 20},
  };
  for (const Check& check : checks) {
    if (check.value >= check.low && check.value <= check.high) continue;
    return Status::InvalidArgument(
        fmt::format("{} must lie in [{}, {}], got {}", check.name, check.low, check.high, check.value));
  }
  return Status::Ok();
}

std::uint64_t FreshSeed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

Result<std::vector<TokenId>> Encode(const ServedModel& model, const std::vector<Segment>& segments,
                                    bool add_special) {
  return model.tokenizer->Encode(segments, {.add_special = add_special});
}

Result<std::vector<TokenId>> EncodeChat(const ServedModel& model, const std::vector<Message>& messages) {
  if (!model.chat_template) {
    return Status::InvalidArgument(model.chat_template_error.ok()
                                       ? "the model has no chat template: give a prompt instead of messages"
                                       : model.chat_template_error.message());
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  const nlohmann::ordered_json variables = {{"messages", std::move(list)}, {"add_generation_prompt", true}};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const ChatTemplateContext context = {
      .bos_token = model.bos_token,
      .eos_token = model.eos_token,
      .unix_seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count()};
  const Result<std::vector<Segment>> rendered = model.chat_template->Render(variables, context);
  if (!rendered.ok()) return rendered.status();
  return Encode(model, *rendered, true);
}

Status CheckIds(const std::vector<std::int32_t>& tokens, std::int32_t rows) {
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < rows) continue;
    return Status::InvalidArgument(fmt::format("tokens must lie in [0, {}), got {}", rows, token));
  }
  return Status::Ok();
}

Result<std::vector<TokenId>> PromptTokens(const ServedModel& model, const Request& request) {
  const int inputs = (request.prompt.empty() ? 0 : 1) + (request.tokens.empty() ? 0 : 1) +
                     (request.messages.empty() ? 0 : 1);
  if (inputs != 1) {
    return Status::InvalidArgument(
        fmt::format("exactly one of prompt, tokens and messages must be given, got {}", inputs));
  }
  if (!request.messages.empty()) return EncodeChat(model, request.messages);
  if (!request.prompt.empty()) return Encode(model, {{.text = request.prompt, .trusted = false}}, true);
  if (Status status = CheckIds(request.tokens, model.config.vocabulary_rows); !status.ok()) return status;
  return request.tokens;
}

SamplingParams ToParams(const Sampling& sampling, std::int32_t max_tokens) {
  SamplingParams params;
  params.temperature = sampling.temperature;
  params.top_k = sampling.top_k;
  params.top_p = sampling.top_p;
  params.min_p = sampling.min_p;
  params.typical_p = sampling.typical_p;
  params.repetition_penalty = sampling.repetition_penalty;
  params.presence_penalty = sampling.presence_penalty;
  params.frequency_penalty = sampling.frequency_penalty;
  params.logit_bias = sampling.logit_bias;
  params.seed = sampling.seed ? *sampling.seed : FreshSeed();
  params.max_tokens = max_tokens;
  params.min_tokens = sampling.min_tokens;
  params.ignore_eos = sampling.ignore_eos;
  params.stop_token_ids = sampling.stop_token_ids;
  return params;
}

Result<SequenceRequest> ToSequence(const ServedModel& model, const Request& request) {
  constexpr double kLongestTimeout = 1e8;  // three years
  Result<std::vector<TokenId>> prompt = PromptTokens(model, request);
  if (!prompt.ok()) return prompt.status();
  SequenceRequest sequence;
  sequence.prompt = *std::move(prompt);
  const auto prompt_tokens = static_cast<std::int64_t>(sequence.prompt.size());
  std::int64_t max_tokens = request.sampling.max_tokens;
  if (max_tokens == 0) max_tokens = model.context_length - prompt_tokens;
  if (max_tokens < 1 && request.sampling.max_tokens == 0) {
    return Status::InvalidArgument(
        fmt::format("the prompt has {} tokens and the context {}: none is left to generate", prompt_tokens,
                    model.context_length));
  }
  sequence.sampling = ToParams(request.sampling, static_cast<std::int32_t>(max_tokens));
  if (Status s = ValidateSampling(sequence.sampling, model.sampled_ids()); !s.ok()) return s;
  sequence.end_tokens = model.end_tokens;
  if (request.timeout_seconds) {
    const double seconds = *request.timeout_seconds;
    if (!(seconds > 0.0 && seconds <= kLongestTimeout)) {
      return Status::InvalidArgument(
          fmt::format("timeout_seconds must lie in (0, {}], got {}", kLongestTimeout, seconds));
    }
    sequence.deadline = SystemClock().Now() + FromSeconds(seconds);
  }
  return sequence;
}

void Fill(Error* error, const Status& status) {
  if (error != nullptr) *error = ToError(status);
}

}  // namespace

struct Model::State {
  std::shared_ptr<const ServedModel> model;
};

std::unique_ptr<Model> Model::Load(const LoadOptions& options, Error* error) {
  if (Status status = CheckOptions(options); !status.ok()) {
    Fill(error, status);
    return nullptr;
  }
  LoadHooks hooks;
  if (options.on_progress) hooks.progress = options.on_progress;
  Result<std::shared_ptr<ServedModel>> model =
      LoadServedModel(ToEntry(options), options.max_queued, std::move(hooks));
  if (!model.ok()) {
    Fill(error, model.status());
    return nullptr;
  }
  auto state = std::make_unique<State>();
  state->model = *std::move(model);
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}

Model::~Model() = default;

std::unique_ptr<Generation> Model::Start(const Request& request, Error* error) {
  const std::shared_ptr<const ServedModel>& model = state_->model;
  Result<SequenceRequest> sequence = ToSequence(*model, request);
  if (!sequence.ok()) {
    Fill(error, sequence.status());
    return nullptr;
  }
  auto state = std::make_shared<Generation::State>();
  state->model = model;
  OutputText::Options text = {.stop_strings = request.sampling.stop,
                              .include_stop_string = request.sampling.include_stop_string};
  auto sink = std::make_shared<GenerationSink>(state, model->tokenizer, std::move(text));
  const Result<SequenceId> id = model->engine->Submit(*std::move(sequence), std::move(sink));
  if (!id.ok()) {
    Fill(error, id.status());
    return nullptr;
  }
  state->sequence = *id;
  return std::unique_ptr<Generation>(new Generation(std::move(state)));
}

Completion Model::Generate(const Request& request, const std::function<bool(const Piece&)>& on_piece) {
  Completion refused;
  const std::unique_ptr<Generation> generation = Start(request, &refused.error);
  if (!generation) return refused;
  Piece piece;
  while (on_piece && generation->Next(&piece)) {
    if (on_piece(piece)) continue;
    generation->Cancel();
    break;
  }
  return generation->Finish();
}

std::optional<std::vector<std::int32_t>> Model::Tokenize(const std::string& text, Error* error) const {
  Result<std::vector<TokenId>> tokens = Encode(*state_->model, {{.text = text, .trusted = false}}, true);
  if (tokens.ok()) return *std::move(tokens);
  Fill(error, tokens.status());
  return std::nullopt;
}

std::string Model::Detokenize(const std::vector<std::int32_t>& tokens) const {
  return state_->model->tokenizer->Decode(tokens, true);
}

ModelInfo Model::info() const {
  const ServedModel& model = *state_->model;
  return {.architecture = model.config.architecture,
          .description = model.description,
          .context_length = model.context_length,
          .vocabulary = model.config.vocabulary_rows,
          .has_chat_template = model.chat_template != nullptr};
}

}  // namespace skipjack::embed
