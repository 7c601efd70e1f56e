// From a configuration entry to a model that serves: file, tokenizer, template, runner, engine, warm-up.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/cpu/memory_ledger.h"
#include "backend/model_runner.h"
#include "base/status.h"
#include "config/daemon_config.h"
#include "registry/model_registry.h"

namespace skipjack {

// On the calling thread; takes seconds. Everything it allocated is gone again when it fails. `memory` is
// shared by all models of the process. The observer hears nothing of the warm-up.
Result<std::shared_ptr<ServedModel>> LoadServedModel(const ModelEntry& entry, const MemoryLedger& memory,
                                                     std::shared_ptr<EngineObserver> observer,
                                                     std::int32_t max_waiting_sequences,
                                                     const LoadProgress& progress);

// Generates two tokens, so that the first real request meets warm caches and a model that cannot generate is
// found before it is called ready.
Status WarmUp(const ServedModel& model);

}  // namespace skipjack
