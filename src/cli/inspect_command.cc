#include <fmt/core.h>

#include <memory>

#include "cli/command.h"
#include "model/inspect.h"

namespace skipjack::cli {
namespace {

int Inspect(const std::string& path, bool json) {
  const Result<std::string> report = InspectModel(path, json);
  if (!report.ok()) {
    fmt::print(stderr, "{}\n", report.status().message());
    return 1;
  }
  fmt::print("{}", *report);
  return 0;
}

}  // namespace

void AddInspectCommand(CLI::App* app, Run* run) {
  CLI::App* command =
      app->add_subcommand("inspect", "Print a model file's metadata, tensors and the memory it needs");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  command->add_option("model", *path, "A .gguf file, any part of a split one, or its folder")
      ->required()
      ->check(CLI::ExistingPath);
  command->add_flag("--json", *json, "As JSON");
  command->callback([path, json, run] { *run = [path, json] { return Inspect(*path, *json); }; });
}

}  // namespace skipjack::cli
