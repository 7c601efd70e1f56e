#include "cli/generate_command.h"

#include <fmt/core.h>

#include <iostream>
#include <iterator>
#include <memory>

#include "cli/command.h"
#include "obs/logging.h"

namespace skipjack::cli {
namespace {

int Generate(GenerateOptions options) {
  if (options.prompt == "-") {
    options.prompt.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
  }
  if (const Status status = SetUpLogging(options.verbose ? "info" : "warn", "text"); !status.ok()) return 1;
  if (options.connect.empty() && options.model.empty()) {
    fmt::print(stderr, "give --connect HOST:PORT (a running daemon) or --model FILE (load it here)\n");
    return 2;
  }
  if (options.connect.empty()) return GenerateLocally(options);
#ifdef SKIPJACK_WITH_GRPC
  return GenerateRemotely(options);
#else
  fmt::print(stderr, "this build has no gRPC, so --connect cannot be used\n");
  return 2;
#endif
}

}  // namespace

void PrintReport(const GenerateReport& report) {
  const double computed = report.prompt_tokens - report.cached_tokens;
  const double prefill = report.prefill_seconds > 0 ? computed / report.prefill_seconds : 0;
  const double decode =
      report.decode_seconds > 0 ? (report.completion_tokens - 1) / report.decode_seconds : 0;
  fmt::print(
      stderr,
      "\n[prompt {} tokens ({} cached), {:.0f} tok/s | output {} tokens, {:.1f} tok/s | queue {:.1f} ms, "
      "first token {:.1f} ms]\n",
      report.prompt_tokens, report.cached_tokens, prefill, report.completion_tokens, decode,
      report.queue_seconds * 1e3, (report.queue_seconds + report.prefill_seconds) * 1e3);
}

void AddGenerateCommand(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand(
      "generate", "Stream one answer to the terminal, from a daemon or from a model loaded here");
  auto options = std::make_shared<GenerateOptions>();
  command->add_option("--connect", options->connect, "HOST:PORT of a daemon's gRPC");
  command->add_option("--model,-m", options->model,
                      "A model file to load here; with --connect a model's name");
  command->add_option("--prompt,-p", options->prompt, "The prompt; - reads standard input")->required();
  command->add_flag("--chat", options->chat,
                    "Put the prompt through the model's chat template as a user's message");
  command->add_option("--system", options->system, "With --chat: a system message in front");
  command->add_option("--max-tokens,-n", options->max_tokens,
                      "Output tokens at most (16; with --chat the context)");
  command->add_option("--temperature", options->temperature, "0 is greedy (1)");
  command->add_option("--top-p", options->top_p, "Nucleus sampling (1: off)");
  command->add_option("--top-k", options->top_k, "The k best only (0: off)");
  command->add_option("--seed", options->seed, "Same seed, same answer (random)");
  command->add_option("--stop", options->stop, "A string that ends the answer; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--compute", options->compute, "With a model loaded here: auto, f32, bf16 or int8")
      ->capture_default_str();
  command->add_option("--isa", options->isa, "With a model loaded here: auto, generic, avx2 or avx512")
      ->capture_default_str();
  command
      ->add_option("--threads,-t", options->threads, "With a model loaded here (0: what the machine allows)")
      ->capture_default_str();
  command
      ->add_option("--context-length", options->context_length,
                   "With a model loaded here (0: the model's own)")
      ->capture_default_str();
  command->add_flag("--verbose,-v", options->verbose, "Log what happens");
  command->callback([options, run] { *run = [options] { return Generate(*options); }; });
}

}  // namespace skipjack::cli
