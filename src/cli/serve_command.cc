#include <fmt/core.h>

#include <memory>

#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/signals.h"
#include "config/daemon_config.h"
#include "obs/logging.h"

namespace skipjack::cli {
namespace {

int Serve(const std::string& config_path, const DaemonOptions& options) {
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
  return RunDaemon(*config, options, &signals);
}

}  // namespace

void AddServeCommand(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("serve", "Serve the models of a configuration file until SIGTERM or Ctrl-C");
  auto config = std::make_shared<std::string>();
  auto options = std::make_shared<DaemonOptions>();
  command->add_option("--config,-c", *config, "The YAML file; docs/configuration.md lists every key")
      ->required()
      ->check(CLI::ExistingFile);
  command->add_option("--ready-file", options->ready_file,
                      "Written once everything is ready: the addresses listened on, as grpc=HOST:PORT and "
                      "http=HOST:PORT lines");
  command->callback(
      [config, options, run] { *run = [config, options] { return Serve(*config, *options); }; });
}

}  // namespace skipjack::cli
