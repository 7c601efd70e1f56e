// Sends planned requests and records what comes back. One implementation per protocol.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "cli/bench/report.h"
#include "cli/bench/workload.h"

namespace skipjack::cli {

using BenchClock = std::chrono::steady_clock;

struct LoadClientOptions {
  std::string address;     // HOST:PORT
  std::string model;       // empty: the server's only one
  bool ignore_eos = true;  // exactly max_tokens, so that two runs do the same work
  double temperature = 0;
  BenchClock::time_point start;  // zero of the records' times
};

class LoadClient {
 public:
  virtual ~LoadClient() = default;
  // Vocabulary of the model, for drawing prompts.
  virtual Result<std::int32_t> Vocabulary() = 0;
  // Times in the records count from here.
  virtual void SetStart(BenchClock::time_point start) = 0;
  // Sends now and returns at once. Fills all of *record but `due` and `sent`, then calls `done` (on a thread
  // of the client's), after which it does not touch the record any more. `request` must live until then.
  virtual void Send(const PlannedRequest& request, RequestRecord* record, std::function<void()> done) = 0;
};

Result<std::unique_ptr<LoadClient>> MakeGrpcClient(const LoadClientOptions& options);
Result<std::unique_ptr<LoadClient>> MakeHttpClient(const LoadClientOptions& options);

}  // namespace skipjack::cli
