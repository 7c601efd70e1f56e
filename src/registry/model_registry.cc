#include "registry/model_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "backend/cpu/memory_ledger.h"
#include "registry/latency_cache.h"
#include "registry/model_loader.h"

namespace skipjack {
namespace {

struct Slot {
  ModelStatus status;
  std::shared_ptr<ServedModel> model;  // when ready
};

Status NotServing(const ModelStatus& status) {
  if (status.state == ModelState::kFailed) {
    return Status::Unavailable(
        fmt::format("model '{}' failed to load: {}", status.name, status.error.message()));
  }
  return Status::Unavailable(
      fmt::format("model '{}' is loading: {} ({:.0f} %)", status.name, status.phase, 100 * status.progress));
}

}  // namespace

struct ModelRegistry::State {
  ModelRegistryOptions options;
  const MemoryLedger memory;  // of all models

  mutable std::mutex mutex;
  std::vector<Slot> slots;  // in the order of declaration: few, so a search is a walk

  Slot* Find(const std::string& name) {
    const auto it =
        std::find_if(slots.begin(), slots.end(), [&](const Slot& s) { return s.status.name == name; });
    return it == slots.end() ? nullptr : &*it;
  }

  Slot& FindOrAdd(const std::string& name) {
    if (Slot* slot = Find(name)) return *slot;
    Slot& slot = slots.emplace_back();
    slot.status.name = name;
    slot.status.phase = "waiting";
    return slot;
  }

  std::string Names() const {
    std::string names;
    for (const Slot& slot : slots) names += (names.empty() ? "" : ", ") + slot.status.name;
    return names.empty() ? "none" : names;
  }
};

ModelRegistry::ModelRegistry(ModelRegistryOptions options) : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  if (!state_->options.loader) state_->options.loader = LoadServedModel;
}

ModelRegistry::~ModelRegistry() = default;

void ModelRegistry::Declare(const std::string& name) {
  std::lock_guard lock(state_->mutex);
  state_->FindOrAdd(name);
}

Status ModelRegistry::Load(const ModelEntry& entry, const LoadProgress& progress,
                           const std::atomic<bool>* cancel) {
  {
    std::lock_guard lock(state_->mutex);
    Slot& slot = state_->FindOrAdd(entry.name);
    if (slot.model) return Status::AlreadyExists(fmt::format("model '{}' is loaded already", entry.name));
    slot.status.state = ModelState::kLoading;
    slot.status.error = {};
  }
  const ModelRegistryOptions& options = state_->options;
  LoadHooks hooks;
  hooks.cancel = cancel;
  hooks.memory = &state_->memory;
  if (options.observers) hooks.observer = options.observers(entry.name);
  if (options.on_broken) {
    hooks.on_broken = [notify = options.on_broken, name = entry.name](const Status& why) {
      notify(name, why);
    };
  }
  hooks.progress = [&](const std::string& phase, double fraction) {
    {
      std::lock_guard lock(state_->mutex);
      ModelStatus& status = state_->FindOrAdd(entry.name).status;
      status.phase = phase;
      status.progress = fraction;
    }
    if (progress) progress(phase, fraction);
  };
  Result<std::shared_ptr<ServedModel>> model =
      options.loader(entry, options.max_waiting_sequences, std::move(hooks));
  if (model.ok()) {
    Add(*std::move(model));
    if (progress) progress("ready", 1.0);
    return {};
  }
  std::lock_guard lock(state_->mutex);
  ModelStatus& status = state_->FindOrAdd(entry.name).status;
  status.state = ModelState::kFailed;
  status.error = model.status();
  return Status(model.status().code(), fmt::format("model '{}': {}", entry.name, model.status().message()));
}

void ModelRegistry::Add(std::shared_ptr<ServedModel> model) {
  std::lock_guard lock(state_->mutex);
  Slot& slot = state_->FindOrAdd(model->name);
  slot.status.state = ModelState::kReady;
  slot.status.phase = "ready";
  slot.status.progress = 1.0;
  slot.model = std::move(model);
}

Result<std::shared_ptr<ServedModel>> ModelRegistry::Find(const std::string& name) const {
  std::lock_guard lock(state_->mutex);
  if (name.empty() && state_->slots.size() > 1) {
    return Status::InvalidArgument(
        fmt::format("model: name one, this server has several: {}", state_->Names()));
  }
  const Slot* slot = nullptr;
  if (!name.empty()) {
    slot = state_->Find(name);
  } else if (!state_->slots.empty()) {
    slot = &state_->slots.front();
  }
  if (!slot) {
    return Status::NotFound(
        fmt::format("model '{}' is not served here; there are: {}", name, state_->Names()));
  }
  if (!slot->model) return NotServing(slot->status);
  return slot->model;
}

std::vector<std::shared_ptr<ServedModel>> ModelRegistry::Ready() const {
  std::vector<std::shared_ptr<ServedModel>> models;
  std::lock_guard lock(state_->mutex);
  for (const Slot& slot : state_->slots) {
    if (slot.model) models.push_back(slot.model);
  }
  return models;
}

std::vector<ModelStatus> ModelRegistry::Statuses() const {
  std::vector<Slot> slots;
  {
    std::lock_guard lock(state_->mutex);
    slots = state_->slots;
  }
  std::vector<ModelStatus> statuses;
  for (Slot& slot : slots) {
    if (slot.model) slot.status.error = slot.model->engine->Health();
    statuses.push_back(std::move(slot.status));
  }
  return statuses;
}

void ModelRegistry::SaveLearnt() const {
  for (const std::shared_ptr<ServedModel>& model : Ready()) {
    if (model->latency_memory) model->latency_memory->Keep(model->engine->Stats().latency);
  }
}

Status ModelRegistry::Health() const {
  const std::vector<ModelStatus> statuses = Statuses();
  if (statuses.empty()) return Status::Unavailable("no model is configured");
  const bool any_ready = std::any_of(statuses.begin(), statuses.end(),
                                     [](const ModelStatus& s) { return s.state == ModelState::kReady; });
  for (const ModelStatus& status : statuses) {
    if (status.state == ModelState::kFailed && state_->options.serve_others && any_ready) continue;
    if (status.state != ModelState::kReady) return NotServing(status);
    if (!status.error.ok()) {
      return Status::Unavailable(fmt::format("model '{}': {}", status.name, status.error.message()));
    }
  }
  return {};
}

}  // namespace skipjack
