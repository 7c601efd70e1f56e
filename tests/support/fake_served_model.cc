#include "tests/support/fake_served_model.h"

#include <span>
#include <utility>

#include "backend/fake/fake_runner.h"
#include "tests/support/byte_tokenizer.h"

namespace skipjack::testing {
namespace {

constexpr char kChatTemplate[] =
    "{% for message in messages %}<bos>{{ message.role }}\n{{ message.content }}<eot>\n{% endfor %}"
    "{% if add_generation_prompt %}<bos>assistant\n{% endif %}";

void PreferPrintable(std::span<float> logits) {
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (id < ' ' || id > '~') logits[id] = -1000.0f;
  }
}

FakeRunnerOptions RunnerOptions(const FakeServedModelOptions& options) {
  FakeRunnerOptions runner;
  runner.vocabulary = ByteTokenizer::kVocabulary;
  RunnerLimits& limits = runner.limits;
  limits.block_tokens = options.block_tokens;
  const std::int32_t blocks_per_context =
      (options.context_length + options.block_tokens - 1) / options.block_tokens;
  limits.kv_blocks = options.kv_blocks > 0 ? options.kv_blocks : blocks_per_context * options.max_sequences;
  limits.max_step_tokens = options.max_batch_tokens;
  limits.max_slices = options.max_sequences;
  limits.max_logits_rows = options.max_sequences;
  limits.context_length = options.context_length;
  runner.on_forward = options.on_step;
  if (options.printable) {
    runner.on_logits = [](std::int32_t /*row*/, std::span<float> logits) { PreferPrintable(logits); };
  }
  return runner;
}

}  // namespace

std::shared_ptr<ServedModel> MakeFakeServedModel(const FakeServedModelOptions& options) {
  auto model = std::make_shared<ServedModel>();
  model->name = options.name;
  model->created_unix_seconds = 1700000000;
  model->config.architecture = "fake";
  model->config.vocabulary_rows = ByteTokenizer::kVocabulary;
  model->config.context_length = options.context_length;
  model->context_length = options.context_length;
  model->description = "fake, bytes";
  model->tokenizer = std::make_shared<ByteTokenizer>();
  model->chat_template = *ChatTemplate::Parse(kChatTemplate);
  model->bos_token = "<bos>";
  model->eos_token = "<eos>";
  model->end_tokens = model->tokenizer->EndOfGenerationTokens();

  FakeRunnerOptions runner = RunnerOptions(options);
  EngineOptions engine;
  engine.scheduler.max_batch_tokens = options.max_batch_tokens;
  engine.scheduler.max_sequences = options.max_sequences;
  engine.scheduler.max_queued = options.max_queued;
  engine.scheduler.block_tokens = runner.limits.block_tokens;
  engine.scheduler.kv_blocks = runner.limits.kv_blocks;
  engine.scheduler.context_length = options.context_length;
  engine.scheduler.prefix_cache = options.prefix_cache;
  engine.on_broken = options.on_broken;
  model->engine = *Engine::Create(CreateFakeRunner(std::move(runner)), engine, options.observer);
  return model;
}

}  // namespace skipjack::testing
