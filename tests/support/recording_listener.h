// Keeps what a request's listener hears, and checks the order in which it is told.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "serve/inference_service.h"

namespace skipjack::testing {

// Thread-safe.
class RecordingListener final : public CompletionListener {
 public:
  struct Choice {
    std::string text;
    std::vector<TokenPiece> tokens;
    std::optional<ChoiceFinish> finish;
  };

  // Called before each event is recorded, on the thread that delivers it.
  std::function<void(const std::string& event)> on_event;

  void OnAccepted(Accepted accepted) override;
  void OnDelta(ChoiceDelta delta) override;
  void OnChoiceFinish(ChoiceFinish finish) override;
  void OnCompleted(Completed completed) override;

  // Returns once the request is accepted, or over.
  void WaitUntilAccepted();
  Completed WaitUntilCompleted();
  // Returns when `choice` has at least this many tokens, or the request is over.
  void WaitForTokens(std::int32_t choice, std::size_t tokens);

  std::optional<Accepted> accepted() const;
  std::map<std::int32_t, Choice> choices() const;
  bool completed() const;
  // What went against the contract; empty when all was well.
  std::string violation() const;

 private:
  // Takes the lock, after on_event.
  std::unique_lock<std::mutex> Enter(const std::string& event);
  void Violate(const std::string& what);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool inside_ = false;
  std::optional<Accepted> accepted_;
  std::map<std::int32_t, Choice> choices_;
  std::optional<Completed> completed_;
  std::string violation_;
};

}  // namespace skipjack::testing
