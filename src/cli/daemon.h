// The daemon's life: bind ports, load, warm, ready; then not ready, refuse new work, finish streams, end.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "base/clock.h"
#include "cli/signals.h"
#include "config/daemon_config.h"
#include "registry/model_registry.h"

namespace skipjack::cli {

struct DaemonAddresses {
  std::string grpc;  // "host:port"; empty where the protocol is disabled
  std::string http;
};

struct DaemonOptions {
  // Called once everything is ready, on the thread that runs the daemon.
  std::function<void(const DaemonAddresses&)> on_ready = {};
  // What stopping may take beyond server.drain_grace and two steps; then the process ends all the same.
  Duration stop_margin = std::chrono::seconds(10);
  ModelLoader loader = {};  // ModelRegistryOptions::loader
};

// Runs until a signal, or until an engine is out of order for good. Returns the process's exit status (see
// exit_guard.h); does not return when stopping takes too long or a second signal comes.
int RunDaemon(const DaemonConfig& config, const DaemonOptions& options, Signals* signals);

}  // namespace skipjack::cli
