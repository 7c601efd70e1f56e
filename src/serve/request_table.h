// The requests that are live, and what was learnt from those that ended. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "serve/inference_service.h"

namespace skipjack {

class CompletionSession;

class RequestTable {
 public:
  using Key = std::uint64_t;  // in order of arrival

  explicit RequestTable(std::int32_t max_live) : max_live_(max_live) {}

  // A place for one more request, or none when `max_live` are live.
  std::optional<Key> Enter();
  // Makes the request of this place findable.
  void Put(Key key, std::weak_ptr<CompletionSession> session);
  // The request ended after `total` (nothing where it never ran): it is not live any more.
  void Leave(Key key, std::optional<Duration> total);
  // Its listener has heard of it. Every Enter() is followed by Leave() and then Delivered().
  void Delivered();

  std::int32_t live() const;
  // The oldest `limit`, or all with this request id.
  std::vector<std::shared_ptr<CompletionSession>> Oldest(std::size_t limit) const;
  std::vector<std::shared_ptr<CompletionSession>> WithId(const std::string& request_id) const;

  // When a refused client should come again: by then the requests that are live now have been served, if they
  // take as long as the recent ones did. 1 to 60.
  int RetryAfterSeconds() const;

  // Returns when no request is live and no listener is being called.
  void WaitUntilEmpty();

 private:
  const std::int32_t max_live_;
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  Key last_key_ = 0;
  std::int32_t live_ = 0;
  std::int32_t undelivered_ = 0;
  std::map<Key, std::weak_ptr<CompletionSession>> sessions_;
  double mean_seconds_ = 0;  // of served requests, exponentially weighted
};

}  // namespace skipjack
