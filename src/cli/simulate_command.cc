#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/simulate/simulation.h"

namespace skipjack::cli {
namespace {

struct CommandOptions {
  SimulationOptions simulation;
  std::string cost_model;
  std::string json;
  std::string write_trace;
  std::string swap = "recompute";
  double starvation_bound = 0;
  double ageing_bound = 0;
  double quantum = 0;
  double token_gap = 0;
  std::int32_t context = 0;
};

int Fail(const Status& status) {
  fmt::print(stderr, "{}\n", status.ToString());
  return 1;
}

nlohmann::json SettingJson(const CommandOptions& options, double saturation) {
  const SimulationOptions& s = options.simulation;
  return {{"cost_model", s.cost.name},
          {"workload", s.workload.trace.empty() ? s.workload.name : s.workload.trace},
          {"requests", s.workload.requests},
          {"seeds", s.seeds},
          {"first_seed", s.workload.seed},
          {"max_sequences", s.max_sequences},
          {"max_batch_tokens", s.max_batch_tokens},
          {"max_tokens", s.workload.max_tokens},
          {"kv_tokens", s.kv_tokens > 0 ? s.kv_tokens : s.cost.kv_tokens},
          {"swap", options.swap},
          {"starvation_bound", options.starvation_bound},
          {"ageing_bound", options.ageing_bound},
          {"reference", s.reference.empty() ? s.policies.front() : s.reference},
          {"saturation_requests_per_second", saturation}};
}

// The requests of the first seed, for others to replay.
int WriteTrace(const CommandOptions& options) {
  const Result<std::vector<SimulatedRequest>> requests = MakeSimWorkload(options.simulation.workload);
  if (!requests.ok()) return Fail(requests.status());
  std::ofstream file(options.write_trace);
  for (const SimulatedRequest& request : *requests) file << TraceLine(request) << "\n";
  file.flush();
  return file.good() ? 0 : Fail(Status::Internal("cannot write " + options.write_trace));
}

int Simulate(CommandOptions options) {
  SimulationOptions& simulation = options.simulation;
  Result<CostFile> cost = LoadCostFile(options.cost_model);
  if (!cost.ok()) return Fail(cost.status());
  simulation.cost = *cost;
  simulation.workload.context_length = options.context > 0 ? options.context : cost->context_length;
  if (!options.write_trace.empty()) return WriteTrace(options);
  if (options.swap != "recompute")
    simulation.swap = options.swap == "reactive" ? SwapMode::kReactive : SwapMode::kProactive;
  simulation.settings.starvation_bound = FromSeconds(options.starvation_bound);
  simulation.settings.ageing_bound = FromSeconds(options.ageing_bound);
  simulation.settings.quantum = FromSeconds(options.quantum);
  simulation.token_gap_target = FromSeconds(options.token_gap);
  const Result<SimulationResult> result =
      RunSimulation(simulation, [](const std::string& policy, double load, std::int32_t seed) {
        fmt::print(stderr, "\r{:<12} load {:.2f} seed {}   ", policy, load, seed);
      });
  fmt::print(stderr, "\r{:40}\r", "");
  if (!result.ok()) return Fail(result.status());
  const nlohmann::json setting = SettingJson(options, result->saturation);
  fmt::print("{}\n{}", setting.dump(), SimTable(result->points));
  if (options.json.empty()) return 0;
  std::ofstream file(options.json);
  file << nlohmann::json{{"setting", setting}, {"points", SimJson(result->points)}}.dump(2) << "\n";
  file.flush();
  return file.good() ? 0 : Fail(Status::Internal("cannot write " + options.json));
}

void AddOptions(CLI::App* command, CommandOptions* options) {
  SimulationOptions& s = options->simulation;
  std::string workloads = "What to draw:";
  for (const std::string& name : WorkloadNames()) workloads += "\n" + name;
  command->add_option("--cost-model", options->cost_model, "A file of configs/cost")
      ->required()
      ->check(CLI::ExistingFile);
  command
      ->add_option("--policy", s.policies,
                   "request, orca, fcfs, mlfq, index, srpt-oracle; several with commas")
      ->delimiter(',');
  command->add_option("--workload", s.workload.name, workloads + "\nor a name of bench --lengths")
      ->capture_default_str();
  command
      ->add_option("--trace", s.workload.trace,
                   "A JSONL file instead: arrival_s, prompt_tokens, max_tokens, and if known output_tokens, "
                   "tenant, priority (0 realtime, 1, 2 batch)")
      ->check(CLI::ExistingFile);
  command
      ->add_option("--load", s.loads,
                   "Arrival rates as parts of the reference's saturation; several with commas")
      ->delimiter(',')
      ->check(CLI::Range(0.001, 100.0));
  command->add_option("--reference", s.reference, "Whose saturation is load 1 (the first policy)");
  command->add_option("--rate", s.workload.rate,
                      "Requests per second, instead of --load; 0: all at once. Absent: as in the trace, 1 "
                      "where there is none");
  command->add_option("--requests", s.workload.requests, "A seed draws so many")->capture_default_str();
  command->add_option("--seeds", s.seeds, "Repetitions, summed up together")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--seed", s.workload.seed, "The first one")->capture_default_str();
  command->add_option("--cv", s.workload.cv,
                      "Coefficient of variation of the gaps between arrivals (the workload's)");
  command
      ->add_option("--max-tokens", s.workload.max_tokens,
                   "What requests ask for: full (the context's rest), pow2 (the next power of two), exact")
      ->capture_default_str();
  command->add_option("--max-sequences", s.max_sequences, "Seats of a step")->capture_default_str();
  command->add_option("--max-batch-tokens", s.max_batch_tokens, "Tokens of a step")->capture_default_str();
  command->add_option("--kv-tokens", s.kv_tokens, "Tokens that the KV pool holds (the cost model's)");
  command->add_option("--context", options->context, "Context length (the cost model's)");
  command
      ->add_option(
          "--swap", options->swap,
          "What becomes of preempted KV: recompute; reactive: it is copied to and from host memory when "
          "that is needed, the step waits; proactive: ahead of need")
      ->capture_default_str()
      ->check(CLI::IsMember({"recompute", "reactive", "proactive"}));
  command->add_option("--host-kv-tokens", s.host_kv_tokens,
                      "Tokens whose KV host memory holds (16 times the device's)");
  command
      ->add_option("--future-admission", s.future_admission,
                   "Whether admission looks at what running requests are expected to need")
      ->capture_default_str();
  command->add_option("--starvation-bound", options->starvation_bound, "Seconds; mlfq. 0: never")
      ->capture_default_str();
  command->add_option("--ageing-bound", options->ageing_bound, "Seconds; index. 0: never")
      ->capture_default_str();
  command->add_option("--hysteresis", s.settings.hysteresis, "index: by how much who waits must be ahead")
      ->capture_default_str();
  command
      ->add_option("--quantum", options->quantum, "Seconds of the first queue. 0: the minimum iteration time")
      ->capture_default_str();
  command
      ->add_option("--token-gap", options->token_gap,
                   "Seconds a step should take while anybody decodes. 0: any")
      ->capture_default_str();
  command->add_option("--max-lost", s.max_lost_part, "Part of the time that may go into lost work. 1: any")
      ->capture_default_str();
  command
      ->add_option("--protected", s.settings.protected_part,
                   "index: no preemption past this part of the expected length")
      ->capture_default_str();
  command->add_flag("--tenant-fairness", s.tenant_fairness, "The tenant that got least goes first");
  command->add_option("--warmup", s.warmup, "Leave this part of the requests, at the front, out")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9));
  command->add_option("--json", options->json, "Write the result here too");
  command->add_option(
      "--write-trace", options->write_trace,
      "Only write the requests of the first seed here, as a trace for --trace and for bench --trace");
}

}  // namespace

void AddSimulateCommand(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand(
      "simulate", "Compare scheduling policies: the production scheduler under simulated load");
  auto options = std::make_shared<CommandOptions>();
  options->starvation_bound = ToSeconds(options->simulation.settings.starvation_bound);
  options->ageing_bound = ToSeconds(options->simulation.settings.ageing_bound);
  AddOptions(command, options.get());
  command->callback([options, run] { *run = [options] { return Simulate(*options); }; });
}

}  // namespace skipjack::cli
