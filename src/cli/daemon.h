// The daemon's life: bind ports, load, warm, ready; then not ready, refuse new work, finish streams, end.
#pragma once

#include <string>

#include "cli/signals.h"
#include "config/daemon_config.h"

namespace skipjack::cli {

struct DaemonOptions {
  std::string ready_file;  // empty: none
};

// Runs until a signal. Returns the process's exit status: 0 after an orderly stop, 1 when start-up failed.
int RunDaemon(const DaemonConfig& config, const DaemonOptions& options, Signals* signals);

}  // namespace skipjack::cli
