// A model as the registry serves it, with a real engine over the fake runner: for tests of everything in
// front of the engine. Deterministic: what it says depends on the prompt, the parameters and the seed only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backend/model_runner.h"
#include "registry/model_registry.h"

namespace skipjack::testing {

struct FakeServedModelOptions {
  std::string name = "fake";
  std::int32_t context_length = 512;
  std::int32_t block_tokens = 16;
  std::int32_t kv_blocks = 0;  // 0: full contexts for all sequences
  std::int32_t max_sequences = 16;
  std::int32_t max_batch_tokens = 256;
  std::int32_t max_queued = 4096;
  bool prefix_cache = true;
  // Only letters, digits, punctuation and spaces are likely: the text is ASCII and nothing ends it before
  // max_tokens. Otherwise any byte and any control token may come.
  bool printable = true;
  // Called at the start of every step, on the step thread: tests block, count or fail steps here.
  std::function<Status(const StepBatch&)> on_step{};
  std::shared_ptr<EngineObserver> observer{};
  std::function<void(const Status&)> on_broken{};
};

// Tokens are bytes (tests/support/byte_tokenizer.h); it has a chat template of the ChatML kind.
std::shared_ptr<ServedModel> MakeFakeServedModel(const FakeServedModelOptions& options = {});

}  // namespace skipjack::testing
