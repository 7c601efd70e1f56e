// The `skipjack` command.
#include <csignal>

#include "cli/command.h"

int main(int argc, char** argv) {
  // A client that closes its end must not end us: writes report EPIPE instead.
  std::signal(SIGPIPE, SIG_IGN);

  CLI::App app{"Skipjack: an LLM serving daemon with preemptive iteration-level scheduling"};
  app.set_version_flag("--version", std::string("skipjack ") + SKIPJACK_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);

  skipjack::cli::Run run;
  skipjack::cli::AddServeCommand(&app, &run);
  skipjack::cli::AddGenerateCommand(&app, &run);
  skipjack::cli::AddInspectCommand(&app, &run);
  skipjack::cli::AddCheckConfigCommand(&app, &run);
  skipjack::cli::AddDevicesCommand(&app, &run);
  skipjack::cli::AddBenchCommand(&app, &run);
  skipjack::cli::AddSimulateCommand(&app, &run);
  skipjack::cli::AddReplayCommand(&app, &run);
#ifdef SKIPJACK_WITH_GRPC
  skipjack::cli::AddFitCostModelCommand(&app, &run);
  skipjack::cli::AddExplainCommand(&app, &run);
  skipjack::cli::AddHealthCommand(&app, &run);
#endif

  CLI11_PARSE(app, argc, argv);
  return run();
}
