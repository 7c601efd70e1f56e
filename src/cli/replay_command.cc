#include <fmt/core.h>

#include <fstream>
#include <memory>

#include "cli/command.h"
#include "sched/recording.h"

namespace skipjack::cli {
namespace {

int Replay(const std::string& path) {
  std::ifstream file(path);
  const Result<ReplayReport> report = ReplayRecording(&file);
  if (!report.ok()) {
    fmt::print(stderr, "{}: {}\n", path, report.status().ToString());
    return 1;
  }
  fmt::print("{} plans for {} sequences, {} preemptions, {} KV blocks copied\n", report->plans,
             report->sequences, report->stats.preemptions, report->stats.swap.out + report->stats.swap.in);
  if (report->differs_at.has_value()) {
    fmt::print("step {} is planned differently than it was recorded\n", *report->differs_at);
    return 1;
  }
  fmt::print("every plan is the one that was recorded\n");
  return 0;
}

}  // namespace

void AddReplayCommand(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand(
      "replay", "Repeat what a daemon's scheduler recorded (scheduler.record) and compare every plan");
  auto path = std::make_shared<std::string>();
  command->add_option("recording", *path, "The file")->required()->check(CLI::ExistingFile);
  command->callback([path, run] { *run = [path] { return Replay(*path); }; });
}

}  // namespace skipjack::cli
