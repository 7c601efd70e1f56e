#include "cli/exit_guard.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "base/thread_name.h"

namespace skipjack::cli {
namespace {

using std::chrono::steady_clock;

// Describing the state may hang on what hangs already.
constexpr unsigned kDumpSeconds = 5;

[[noreturn]] void EndNow(int status) {
  spdlog::default_logger()->flush();
  std::_Exit(status);
}

}  // namespace

ExitGuard::~ExitGuard() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    disarmed_ = true;
  }
  signals_->Wake();
  thread_.join();
}

void ExitGuard::Arm(Duration limit) {
  thread_ = std::thread([this, limit, deadline = steady_clock::now() + limit] { Watch(deadline, limit); });
}

void ExitGuard::Enter(std::string stage, std::function<std::string()> state) {
  std::lock_guard lock(mutex_);
  stage_ = std::move(stage);
  state_ = std::move(state);
}

void ExitGuard::Watch(steady_clock::time_point deadline, Duration limit) {
  SetThreadName("exit-guard");
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) EndStuck(limit);
    const std::optional<int> signal = signals_->Wait(left);
    std::lock_guard lock(mutex_);
    if (disarmed_) return;
    if (!signal) continue;
    spdlog::warn("signal {} while {}: ending at once", *signal, stage_);
    EndNow(128 + *signal);
  }
}

void ExitGuard::EndStuck(Duration limit) {
  alarm(kDumpSeconds);
  std::lock_guard lock(mutex_);
  spdlog::critical("not stopped after {:.1f} s, still {}: giving up\n{}", ToSeconds(limit), stage_,
                   state_ ? state_() : std::string());
  EndNow(kExitStuck);
}

}  // namespace skipjack::cli
