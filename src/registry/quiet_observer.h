// Passes on what an engine reports, once it is told to.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "engine/engine.h"

namespace skipjack {

class QuietObserver final : public EngineObserver {
 public:
  explicit QuietObserver(std::shared_ptr<EngineObserver> next) : next_(std::move(next)) {}

  void Listen() { listening_.store(true, std::memory_order_release); }

  void OnStep(double seconds, std::int32_t prompt_tokens, std::int32_t decode_tokens) override {
    if (listening()) next_->OnStep(seconds, prompt_tokens, decode_tokens);
  }
  void OnToken(double gap_seconds) override {
    if (listening()) next_->OnToken(gap_seconds);
  }
  void OnFirstToken(double ttft_seconds, double queue_seconds) override {
    if (listening()) next_->OnFirstToken(ttft_seconds, queue_seconds);
  }
  void OnFinish(const FinishEvent& event, double total_seconds) override {
    if (listening()) next_->OnFinish(event, total_seconds);
  }

 private:
  bool listening() const { return next_ && listening_.load(std::memory_order_acquire); }

  const std::shared_ptr<EngineObserver> next_;
  std::atomic<bool> listening_{false};
};

}  // namespace skipjack
