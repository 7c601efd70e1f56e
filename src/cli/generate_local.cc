#include <fmt/core.h>

#include <future>
#include <memory>

#include "cli/generate_command.h"
#include "cli/progress_bar.h"
#include "registry/model_registry.h"
#include "serve/inference_service.h"

namespace skipjack::cli {
namespace {

constexpr const char* kModelName = "local";
constexpr std::int64_t kKvBytes = 512ll << 20;

class TerminalListener final : public CompletionListener {
 public:
  void OnAccepted(Accepted) override {}
  void OnDelta(ChoiceDelta delta) override {
    std::fwrite(delta.text.data(), 1, delta.text.size(), stdout);
    std::fflush(stdout);
  }
  void OnChoiceFinish(ChoiceFinish) override {}
  void OnCompleted(Completed completed) override { done_.set_value(std::move(completed)); }

  Completed Wait() { return done_.get_future().get(); }

 private:
  std::promise<Completed> done_;
};

CompletionRequest MakeRequest(const GenerateOptions& options) {
  CompletionRequest request;
  request.prompt = options.prompt;
  if (options.chat) {
    nlohmann::ordered_json messages = nlohmann::ordered_json::array();
    if (!options.system.empty()) messages.push_back({{"role", "system"}, {"content", options.system}});
    messages.push_back({{"role", "user"}, {"content", options.prompt}});
    request.prompt = ChatPrompt{{{"messages", std::move(messages)}, {"add_generation_prompt", true}}};
  }
  request.max_tokens = options.max_tokens;
  request.temperature = options.temperature;
  request.top_p = options.top_p;
  request.top_k = options.top_k;
  request.seed = options.seed;
  request.stop = options.stop;
  return request;
}

}  // namespace

int GenerateLocally(const GenerateOptions& options) {
  ModelRegistry registry;
  ModelEntry entry;
  entry.name = kModelName;
  entry.path = options.model;
  entry.compute = options.compute;
  entry.isa = options.isa;
  entry.threads = options.threads;
  entry.context_length = options.context_length;
  entry.kv.device_memory = kKvBytes;
  entry.scheduler.max_sequences = 1;
  {
    ProgressBar bar(options.model);
    const Status status =
        registry.Load(entry, [&](const std::string& phase, double fraction) { bar.Update(phase, fraction); });
    bar.Finish();
    if (!status.ok()) {
      fmt::print(stderr, "{}\n", status.message());
      return 1;
    }
  }
  const std::unique_ptr<InferenceService> service = CreateInferenceService(registry, {});
  const auto listener = std::make_shared<TerminalListener>();
  service->Start(MakeRequest(options), listener);
  const Completed completed = listener->Wait();
  if (!completed.status.ok()) {
    fmt::print(stderr, "{}\n", completed.status.ToString());
    return 1;
  }
  PrintReport({completed.usage.prompt_tokens, completed.usage.completion_tokens,
               completed.usage.cached_tokens, completed.timings.queue_seconds,
               completed.timings.prefill_seconds, completed.timings.decode_seconds});
  return 0;
}

}  // namespace skipjack::cli
