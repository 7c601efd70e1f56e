// The Generate calls that are open, so that a shutdown can wait for them and then end them. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "obs/log_limiter.h"

namespace skipjack {

class GenerateStream;

class OpenStreams {
 public:
  void Add(GenerateStream* stream);
  void Remove(GenerateStream* stream);
  std::int32_t Count() const;
  // False when some are still open after `grace`.
  bool WaitUntilEmpty(Duration grace);
  // Those open now.
  std::vector<std::shared_ptr<GenerateStream>> List() const;

  // Counters, kept here because streams come and go.
  std::atomic<std::uint64_t> cancelled{0};
  std::atomic<std::uint64_t> cut{0};

  LogLimiter& refusal_lines() { return refusal_lines_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable empty_;
  std::unordered_set<GenerateStream*> streams_;
  const SystemClock clock_;
  LogLimiter refusal_lines_{clock_, std::chrono::seconds(10), 10};  // of overload, in the log
};

}  // namespace skipjack
