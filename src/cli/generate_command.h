// `skipjack generate`: one answer to the terminal, from a daemon over gRPC or from a model loaded here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace skipjack::cli {

struct GenerateOptions {
  std::string connect;  // HOST:PORT of a daemon, or
  std::string model;    // a model file to load here; with `connect` the name of the model to ask

  std::string prompt;
  bool chat = false;
  std::string system;  // with chat: the system message

  std::optional<std::int64_t> max_tokens, top_k, seed;
  std::optional<double> temperature, top_p;
  std::vector<std::string> stop;

  std::string compute = "auto", isa = "auto";
  std::int32_t threads = 0, context_length = 0;
  bool verbose = false;
};

// Timings to stderr after the answer.
struct GenerateReport {
  std::int32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};
void PrintReport(const GenerateReport& report);

int GenerateLocally(const GenerateOptions& options);
int GenerateRemotely(const GenerateOptions& options);

}  // namespace skipjack::cli
