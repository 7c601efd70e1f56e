#include "serve/event_strand.h"

#include <utility>

namespace skipjack {

EventStrand::EventStrand(std::shared_ptr<CompletionListener> listener, std::function<void()> delivered)
    : listener_(std::move(listener)), delivered_(std::move(delivered)) {}

void EventStrand::Post(CompletionEvent event) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(std::move(event));
  if (delivering_) return;
  delivering_ = true;
  Deliver(lock);
}

void EventStrand::OpenWith(Accepted accepted) {
  std::unique_lock lock(mutex_);
  waiting_.emplace(waiting_.begin(), std::move(accepted));
  Deliver(lock);
}

void EventStrand::OpenRefused() {
  std::unique_lock lock(mutex_);
  std::erase_if(waiting_, [](const CompletionEvent& e) { return !std::holds_alternative<Completed>(e); });
  Deliver(lock);
}

void EventStrand::Deliver(std::unique_lock<std::mutex>& lock) {
  while (!waiting_.empty()) {
    batch_.swap(waiting_);
    lock.unlock();
    for (CompletionEvent& event : batch_) {
      // Nothing follows Completed; `delivered_` may let the last reference to this strand's owner go.
      if (Hand(std::move(event))) return;
    }
    batch_.clear();
    lock.lock();
  }
  delivering_ = false;
}

bool EventStrand::Hand(CompletionEvent event) {
  if (auto* delta = std::get_if<ChoiceDelta>(&event)) {
    listener_->OnDelta(std::move(*delta));
  } else if (auto* finish = std::get_if<ChoiceFinish>(&event)) {
    listener_->OnChoiceFinish(std::move(*finish));
  } else if (auto* accepted = std::get_if<Accepted>(&event)) {
    listener_->OnAccepted(std::move(*accepted));
  } else {
    const std::shared_ptr<CompletionListener> listener = std::move(listener_);
    listener->OnCompleted(std::move(std::get<Completed>(event)));
  }
  if (!std::holds_alternative<Completed>(event)) return false;
  const std::function<void()> delivered = std::move(delivered_);
  delivered();
  return true;
}

}  // namespace skipjack
