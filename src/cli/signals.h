// SIGTERM and SIGINT as something to wait for.
#pragma once

#include <chrono>
#include <optional>

namespace skipjack::cli {

// While it lives, SIGTERM and SIGINT are blocked in the calling thread and all threads started after, and
// only seen by Wait(). One object per process.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // The signal that arrived; nullopt when Wake() was called or the time ran out.
  std::optional<int> Wait(std::optional<std::chrono::milliseconds> timeout);
  // Ends a Wait(), from any thread.
  void Wake();

 private:
  int signal_fd_ = -1;
  int wake_fd_ = -1;
};

}  // namespace skipjack::cli
