// The models a daemon serves: loading, readiness, and what a front end needs to use one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/model_runner.h"
#include "base/status.h"
#include "config/daemon_config.h"
#include "engine/engine.h"
#include "model/model_source.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace skipjack {

class LatencyMemory;
class MemoryLedger;

// A loaded, warm model. Shared by requests: it lives until the last of them is done.
struct ServedModel {
  std::string name;
  std::int64_t created_unix_seconds = 0;
  ModelConfig config;
  std::int32_t context_length = 0;  // the configured one
  std::int32_t block_tokens = 0;    // of one KV block
  std::int64_t block_bytes = 0;     // likewise
  std::string description;          // "llama 30 layers, q4_1, cpu avx2 int8 threads=2"
  std::shared_ptr<const Tokenizer> tokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // may be null
  Status chat_template_error;  // why it is, where the model has one that we cannot read
  std::string bos_token, eos_token;
  std::vector<TokenId> end_tokens;
  std::vector<std::string> end_strings;  // that end an answer too; see OutputText::Options
  std::shared_ptr<Engine> engine;
  std::shared_ptr<LatencyMemory> latency_memory;  // keeps what the engine learns of step times; may be null

  // Ids below it may be chosen. The rows of the embedding behind the last token are padding.
  std::int32_t sampled_ids() const {
    return static_cast<std::int32_t>(std::min<std::size_t>(tokenizer->vocabulary_size(),
                                                           static_cast<std::size_t>(config.vocabulary_rows)));
  }
};

enum class ModelState : std::uint8_t { kLoading, kReady, kFailed };

struct ModelStatus {
  std::string name;
  ModelState state = ModelState::kLoading;
  std::string phase;      // of loading
  double progress = 0.0;  // of that phase
  Status error;           // why it failed to load, or what its engine's health is
};

// Who hears of a model's loading and of its engine's life. All may be empty.
struct LoadHooks {
  LoadProgress progress;
  std::shared_ptr<EngineObserver> observer;
  std::function<void(const Status&)> on_broken;  // EngineOptions::on_broken
  const std::atomic<bool>* cancel = nullptr;     // once set, loading ends soon, with CANCELLED
  const MemoryLedger* memory = nullptr;  // shared by all models of the process; null: this one is alone
};

// Loads and warms a model for the registry; the number bounds the sequences that wait for their first step.
using ModelLoader = std::function<Result<std::shared_ptr<ServedModel>>(
    const ModelEntry& entry, std::int32_t max_waiting_sequences, LoadHooks hooks)>;

struct ModelRegistryOptions {
  // Empty: LoadServedModel(). Tests load models that fail where real ones seldom do.
  ModelLoader loader = {};
  // Makes the observer of a model's engine; empty: none.
  std::function<std::shared_ptr<EngineObserver>(const std::string& model)> observers = {};
  // Called once when a model's engine is out of order for good, on that engine's step thread.
  std::function<void(const std::string& model, const Status& why)> on_broken = {};
  // Bounds each model's own queue. The edge bounds requests (limits.max_queued); pass that times
  // limits.max_n, so that there is one bound and one message.
  std::int32_t max_waiting_sequences = 1024;
  // A model that failed to load does not make Health() bad, as long as there is another one.
  bool serve_others = false;
};

class ModelRegistry {
 public:
  explicit ModelRegistry(ModelRegistryOptions options = {});
  // Stops every engine. No request may be live.
  ~ModelRegistry();

  // This model will be loaded: until then it is kLoading, and requests for it are answered with UNAVAILABLE.
  void Declare(const std::string& name);

  // Loads and warms one model on the calling thread. The others go on serving. Once `cancel` (may be null) is
  // set it ends soon, with CANCELLED.
  Status Load(const ModelEntry& entry, const LoadProgress& progress,
              const std::atomic<bool>* cancel = nullptr);

  // For tests and embedding: serve something built elsewhere.
  void Add(std::shared_ptr<ServedModel> model);

  // An empty name means the only model there is. NotFound names the models there are; Unavailable while it
  // loads (with the phase) and when loading failed.
  Result<std::shared_ptr<ServedModel>> Find(const std::string& name) const;
  std::vector<std::shared_ptr<ServedModel>> Ready() const;
  std::vector<ModelStatus> Statuses() const;

  // Writes what the engines have learnt to where it is found at the next start. Waits for the disk: not for
  // the threads of requests and steps.
  void SaveLearnt() const;

  // All models loaded (but see ModelRegistryOptions::serve_others), none unhealthy.
  Status Health() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace skipjack
