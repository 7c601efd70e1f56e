#include "tests/support/manual_engine.h"

#include <algorithm>

namespace skipjack::testing {

Result<SequenceId> ManualEngine::Submit(SequenceRequest request, std::shared_ptr<SequenceSink> sink) {
  if (on_submit) {
    if (Status s = on_submit(request); !s.ok()) return s;
  }
  SequenceId id = 0;
  {
    std::lock_guard lock(mutex_);
    id = ++last_id_;
    sequences_[id] = {.request = std::move(request), .sink = std::move(sink), .cancelled_with = {}};
    changed_.notify_all();
  }
  if (on_submitted) on_submitted(id);
  return id;
}

void ManualEngine::Cancel(SequenceId sequence, Status why) {
  {
    std::lock_guard lock(mutex_);
    const auto it = sequences_.find(sequence);
    if (it == sequences_.end() || !it->second.live || !it->second.cancelled_with.ok()) return;
    it->second.cancelled_with = std::move(why);
    changed_.notify_all();
  }
  if (finish_on_cancel) FinishCancelled();
}

std::optional<SequenceExplanation> ManualEngine::Explain(SequenceId sequence) const {
  std::lock_guard lock(mutex_);
  const auto it = sequences_.find(sequence);
  if (it == sequences_.end() || !it->second.live) return std::nullopt;
  return it->second.explanation;
}

void ManualEngine::SetExplanation(SequenceId sequence, SequenceExplanation explanation) {
  std::lock_guard lock(mutex_);
  sequences_.at(sequence).explanation = std::move(explanation);
}

EngineStats ManualEngine::Stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::int32_t ManualEngine::Live() const {
  std::lock_guard lock(mutex_);
  std::int32_t live = 0;
  for (const auto& [id, sequence] : sequences_) live += sequence.live ? 1 : 0;
  return live;
}

std::vector<SequenceId> ManualEngine::WaitForSequences(std::size_t count) {
  std::unique_lock lock(mutex_);
  std::vector<SequenceId> live;
  changed_.wait(lock, [&] {
    live.clear();
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.live) live.push_back(id);
    }
    return live.size() >= count;
  });
  return live;
}

void ManualEngine::WaitForCancelled(std::size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const auto cancelled = [](const auto& s) { return s.second.live && !s.second.cancelled_with.ok(); };
    return static_cast<std::size_t>(std::count_if(sequences_.begin(), sequences_.end(), cancelled)) >= count;
  });
}

void ManualEngine::WaitUntilIdle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::none_of(sequences_.begin(), sequences_.end(), [](const auto& s) { return s.second.live; });
  });
}

SequenceRequest ManualEngine::RequestOf(SequenceId sequence) const {
  std::lock_guard lock(mutex_);
  return sequences_.at(sequence).request;
}

Status ManualEngine::CancelledWith(SequenceId sequence) const {
  std::lock_guard lock(mutex_);
  return sequences_.at(sequence).cancelled_with;
}

bool ManualEngine::Generate(SequenceId id, TokenId token, bool ends_text, float logprob,
                            std::vector<TokenLogprob> top) {
  std::shared_ptr<SequenceSink> sink;
  TokenEvent event;
  {
    std::lock_guard lock(mutex_);
    Sequence& sequence = sequences_.at(id);
    if (!sequence.live) return false;
    sink = sequence.sink;
    event = {.token = {.token = token, .logprob = logprob, .top = std::move(top)},
             .index = sequence.generated++,
             .ends_text = ends_text};
  }
  const bool stopped = sink->OnToken(event);
  if (!stopped && !ends_text) return true;
  Finish(id, FinishReason::kStop);
  return false;
}

void ManualEngine::Generate(SequenceId sequence, std::string_view bytes) {
  for (const char byte : bytes) {
    if (!Generate(sequence, static_cast<unsigned char>(byte))) return;
  }
}

void ManualEngine::Finish(SequenceId id, FinishReason reason, Status status, Timings timings,
                          std::shared_ptr<const Timeline> timeline) {
  std::shared_ptr<SequenceSink> sink;
  FinishEvent event;
  {
    std::lock_guard lock(mutex_);
    Sequence& sequence = sequences_.at(id);
    if (!sequence.live) return;
    sequence.live = false;
    changed_.notify_all();
    sink = std::move(sequence.sink);
    event = {.reason = reason,
             .status = std::move(status),
             .prompt_tokens = static_cast<std::int32_t>(sequence.request.prompt.size()),
             .generated_tokens = sequence.generated,
             .timings = timings,
             .timeline = std::move(timeline)};
  }
  sink->OnFinish(event);
}

void ManualEngine::FinishCancelled() {
  std::vector<std::pair<SequenceId, Status>> cancelled;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [id, sequence] : sequences_) {
      if (sequence.live && !sequence.cancelled_with.ok()) cancelled.emplace_back(id, sequence.cancelled_with);
    }
  }
  for (const auto& [id, why] : cancelled) {
    const bool plain = why.code() == StatusCode::kCancelled;
    Finish(id, plain ? FinishReason::kCancelled : FinishReason::kError, why);
  }
}

}  // namespace skipjack::testing
