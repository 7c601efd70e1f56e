#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/signals.h"
#include "config/daemon_config.h"
#include "obs/logging.h"

namespace skipjack::cli {
namespace {

struct ServeOptions {
  std::string config;
  std::string ready_file;  // empty: none
};

// Written beside and renamed, so that a reader never sees half of it.
void WriteReadyFile(const std::string& path, const DaemonAddresses& addresses) {
  const std::string temporary = path + ".tmp";
  {
    std::ofstream file(temporary);
    if (!addresses.grpc.empty()) file << "grpc=" << addresses.grpc << "\n";
    if (!addresses.http.empty()) file << "http=" << addresses.http << "\n";
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    spdlog::warn("cannot write the ready file {}", path);
  }
}

int Serve(const ServeOptions& options) {
  const std::string& config_path = options.config;
  const Result<DaemonConfig> config = LoadDaemonConfig(config_path);
  if (!config.ok()) {
    fmt::print(stderr, "{}\n", config.status().message());
    return 1;
  }
  if (const Status status = SetUpLogging(config->log.level, config->log.format); !status.ok()) {
    fmt::print(stderr, "{}: {}\n", config_path, status.message());
    return 1;
  }
  // Before any thread starts, so that every thread inherits the mask and the signals come to us alone.
  Signals signals;
  DaemonOptions daemon;
  if (!options.ready_file.empty()) {
    daemon.on_ready = [&](const DaemonAddresses& addresses) {
      WriteReadyFile(options.ready_file, addresses);
    };
  }
  return RunDaemon(*config, daemon, &signals);
}

}  // namespace

void AddServeCommand(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("serve", "Serve the models of a configuration file until SIGTERM or Ctrl-C");
  auto options = std::make_shared<ServeOptions>();
  command->add_option("--config,-c", options->config, "The YAML file; docs/configuration.md lists every key")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--ready-file", options->ready_file,
                      "Written once everything is ready: the addresses listened on, as grpc=HOST:PORT and "
                      "http=HOST:PORT lines");
  command->callback([options, run] { *run = [options] { return Serve(*options); }; });
}

}  // namespace skipjack::cli
