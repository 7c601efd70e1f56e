// Delivers one request's events to its listener, one after the other, whichever threads they come from.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "serve/inference_service.h"

namespace skipjack {

using CompletionEvent = std::variant<Accepted, ChoiceDelta, ChoiceFinish, Completed>;

// Events are delivered in the order they were posted, by a thread that posts: while one thread delivers, what
// others post is delivered by it too. No lock is held during a call to the listener, so a listener may cancel
// its own request. Starts closed: what is posted waits until Open().
class EventStrand {
 public:
  // `delivered` runs once, after OnCompleted has returned and the listener was let go.
  EventStrand(std::shared_ptr<CompletionListener> listener, std::function<void()> delivered);

  void Post(CompletionEvent event);
  // Once. `accepted` goes before everything that waits.
  void OpenWith(Accepted accepted);
  // Once, instead: what waits is dropped, apart from Completed.
  void OpenRefused();

 private:
  // The caller has set delivering_ and holds `lock`.
  void Deliver(std::unique_lock<std::mutex>& lock);
  // True when it was the last one.
  bool Hand(CompletionEvent event);

  std::mutex mutex_;
  std::vector<CompletionEvent> waiting_;
  bool delivering_ = true;  // also while closed, so that nobody starts to
  // Touched by the delivering thread only.
  std::vector<CompletionEvent> batch_;
  std::shared_ptr<CompletionListener> listener_;
  std::function<void()> delivered_;
};

}  // namespace skipjack
