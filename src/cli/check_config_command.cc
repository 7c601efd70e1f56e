#include <fmt/core.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "config/daemon_config.h"

namespace skipjack::cli {
namespace {

int CheckConfig(const std::string& path) {
  const Result<DaemonConfig> config = LoadDaemonConfig(path);
  if (!config.ok()) {
    fmt::print(stderr, "{}\n", config.status().message());
    return 1;
  }
  fmt::print("{} is valid: {} model{}\n", path, config->models.size(), config->models.size() == 1 ? "" : "s");
  for (const ModelEntry& model : config->models) {
    const bool there = std::filesystem::exists(model.path);
    fmt::print("  {}: {}{}\n", model.name, model.path, there ? "" : " (no such file yet)");
  }
  return 0;
}

}  // namespace

void AddCheckConfigCommand(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("check-config", "Check a configuration file without loading anything");
  auto path = std::make_shared<std::string>();
  command->add_option("config", *path, "The YAML file")->required()->check(CLI::ExistingFile);
  command->callback([path, run] { *run = [path] { return CheckConfig(*path); }; });
}

}  // namespace skipjack::cli
