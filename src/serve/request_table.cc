#include "serve/request_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "serve/completion_session.h"

namespace skipjack {
namespace {

constexpr double kNewestWeight = 0.05;
constexpr int kLongestRetrySeconds = 60;

}  // namespace

std::optional<RequestTable::Key> RequestTable::Enter() {
  std::lock_guard lock(mutex_);
  if (live_ >= max_live_) return std::nullopt;
  ++live_;
  ++undelivered_;
  return ++last_key_;
}

void RequestTable::Put(Key key, std::weak_ptr<CompletionSession> session) {
  std::lock_guard lock(mutex_);
  sessions_.emplace(key, std::move(session));
}

void RequestTable::Leave(Key key, std::optional<Duration> total) {
  std::lock_guard lock(mutex_);
  sessions_.erase(key);
  --live_;
  if (!total) return;
  const double seconds = ToSeconds(*total);
  mean_seconds_ = mean_seconds_ == 0 ? seconds : mean_seconds_ + kNewestWeight * (seconds - mean_seconds_);
}

void RequestTable::Delivered() {
  std::lock_guard lock(mutex_);
  if (--undelivered_ == 0) empty_.notify_all();
}

std::int32_t RequestTable::live() const {
  std::lock_guard lock(mutex_);
  return live_;
}

std::vector<std::shared_ptr<CompletionSession>> RequestTable::Oldest(std::size_t limit) const {
  std::vector<std::shared_ptr<CompletionSession>> found;
  std::lock_guard lock(mutex_);
  for (const auto& [key, session] : sessions_) {
    if (found.size() >= limit) break;
    if (auto held = session.lock()) found.push_back(std::move(held));
  }
  return found;
}

std::vector<std::shared_ptr<CompletionSession>> RequestTable::WithId(const std::string& request_id) const {
  std::vector<std::shared_ptr<CompletionSession>> found = Oldest(sessions_.max_size());
  std::erase_if(found, [&](const auto& session) { return session->request_id() != request_id; });
  return found;
}

int RequestTable::RetryAfterSeconds() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(std::clamp(std::ceil(mean_seconds_), 1.0, double{kLongestRetrySeconds}));
}

void RequestTable::WaitUntilEmpty() {
  std::unique_lock lock(mutex_);
  empty_.wait(lock, [this] { return undelivered_ == 0; });
}

}  // namespace skipjack
