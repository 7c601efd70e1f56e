// From a configuration entry to a model that serves: file, tokenizer, template, runner, engine, warm-up.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "config/daemon_config.h"
#include "registry/model_registry.h"

namespace skipjack {

// On the calling thread; takes seconds. Everything it allocated is gone again when it fails. The engine has
// warmed up; its counters and the observer know nothing of that.
Result<std::shared_ptr<ServedModel>> LoadServedModel(const ModelEntry& entry,
                                                     std::int32_t max_waiting_sequences, LoadHooks hooks);

}  // namespace skipjack
