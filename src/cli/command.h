// One subcommand of `skipjack` per function: declares its options and sets `*run` when it is the one called.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace skipjack::cli {

// Returns the process's exit status.
using Run = std::function<int()>;

void AddServeCommand(CLI::App* app, Run* run);
void AddGenerateCommand(CLI::App* app, Run* run);
void AddInspectCommand(CLI::App* app, Run* run);
void AddCheckConfigCommand(CLI::App* app, Run* run);
void AddDevicesCommand(CLI::App* app, Run* run);
void AddBenchCommand(CLI::App* app, Run* run);
void AddSimulateCommand(CLI::App* app, Run* run);
// Only in builds with gRPC.
void AddFitCostModelCommand(CLI::App* app, Run* run);
void AddReplayCommand(CLI::App* app, Run* run);
void AddExplainCommand(CLI::App* app, Run* run);
void AddHealthCommand(CLI::App* app, Run* run);

}  // namespace skipjack::cli
