#include "tests/support/recording_listener.h"

#include <utility>

namespace skipjack::testing {

std::unique_lock<std::mutex> RecordingListener::Enter(const std::string& event) {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(inside_, true)) Violate(event + " while another call runs");
    if (completed_) Violate(event + " after OnCompleted");
  }
  if (on_event) on_event(event);
  std::unique_lock lock(mutex_);
  inside_ = false;
  changed_.notify_all();
  return lock;
}

void RecordingListener::Violate(const std::string& what) {
  violation_ += what + "; ";
}

void RecordingListener::OnAccepted(Accepted accepted) {
  const auto lock = Enter("OnAccepted");
  if (accepted_) Violate("OnAccepted twice");
  accepted_ = std::move(accepted);
}

void RecordingListener::OnDelta(ChoiceDelta delta) {
  const auto lock = Enter("OnDelta");
  if (!accepted_) Violate("OnDelta before OnAccepted");
  Choice& choice = choices_[delta.choice];
  if (choice.finish) Violate("OnDelta after OnChoiceFinish");
  if (delta.text.empty() && delta.tokens.empty()) Violate("an empty OnDelta");
  choice.text += delta.text;
  for (TokenPiece& piece : delta.tokens) choice.tokens.push_back(std::move(piece));
}

void RecordingListener::OnChoiceFinish(ChoiceFinish finish) {
  const auto lock = Enter("OnChoiceFinish");
  if (!accepted_) Violate("OnChoiceFinish before OnAccepted");
  Choice& choice = choices_[finish.choice];
  if (choice.finish) Violate("OnChoiceFinish twice");
  choice.finish = std::move(finish);
}

void RecordingListener::OnCompleted(Completed completed) {
  const auto lock = Enter("OnCompleted");
  if (completed.status.ok() && !accepted_) Violate("success without OnAccepted");
  completed_ = std::move(completed);
}

void RecordingListener::WaitUntilAccepted() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return accepted_ || completed_; });
}

Completed RecordingListener::WaitUntilCompleted() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return completed_.has_value(); });
  return *completed_;
}

void RecordingListener::WaitForTokens(std::int32_t choice, std::size_t tokens) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ || choices_[choice].tokens.size() >= tokens; });
}

std::optional<Accepted> RecordingListener::accepted() const {
  std::lock_guard lock(mutex_);
  return accepted_;
}

std::map<std::int32_t, RecordingListener::Choice> RecordingListener::choices() const {
  std::lock_guard lock(mutex_);
  return choices_;
}

bool RecordingListener::completed() const {
  std::lock_guard lock(mutex_);
  return completed_.has_value();
}

std::string RecordingListener::violation() const {
  std::lock_guard lock(mutex_);
  return violation_;
}

}  // namespace skipjack::testing
