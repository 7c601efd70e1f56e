// Sees to it that a process that is to stop does stop, whatever hangs.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/clock.h"
#include "cli/signals.h"

namespace skipjack::cli {

// The process's exit statuses.
inline constexpr int kExitOrderly = 0;
inline constexpr int kExitNotStarted = 1;  // a port was taken, a model did not load
inline constexpr int kExitBroken = 3;      // an engine was out of order; a restart may help
inline constexpr int kExitStuck = 4;       // stopping took too long
// 128 + the number of the second signal: stopped at once on demand.

class ExitGuard {
 public:
  // `signals` outlives the guard and is waited on by nobody else once it is armed.
  explicit ExitGuard(Signals* signals) : signals_(signals) {}
  // The process has stopped in order, the guard lets go of it.
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

  // From now on the next signal ends the process at once (128 + its number), and so does the time `limit`
  // from now (kExitStuck, with the state in the log). Once.
  void Arm(Duration limit);

  // What the process is at, and a description of its state for the log. `state` is called on the guard's
  // thread, until the next Enter() has returned.
  void Enter(std::string stage, std::function<std::string()> state);

 private:
  void Watch(std::chrono::steady_clock::time_point deadline, Duration limit);
  [[noreturn]] void EndStuck(Duration limit);

  Signals* const signals_;
  std::mutex mutex_;
  std::string stage_ = "stopping";
  std::function<std::string()> state_;
  bool disarmed_ = false;
  std::thread thread_;
};

}  // namespace skipjack::cli
