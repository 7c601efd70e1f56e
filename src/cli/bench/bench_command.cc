#include <fmt/core.h>

#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>

#include "cli/bench/load_client.h"
#include "cli/bench/report.h"
#include "cli/bench/workload.h"
#include "cli/command.h"
#include "cli/progress_bar.h"

namespace skipjack::cli {
namespace {

struct BenchOptions {
  std::string grpc = "127.0.0.1:50051";
  std::string http;
  LoadClientOptions client;
  WorkloadOptions workload;
  ReportOptions report;
  std::int32_t max_concurrency = 0;  // 0: open loop, whatever the server does
  std::string json;
  std::string records;
};

// Counts the requests under way.
class InFlight {
 public:
  explicit InFlight(std::int32_t limit) : limit_(limit) {}

  void Begin() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return limit_ == 0 || count_ < limit_; });
    ++count_;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    --count_;
    ++finished_;
    changed_.notify_all();
  }
  // Waits until `total` have finished, telling `progress` every now and then.
  template <typename Progress>
  void WaitFor(std::size_t total, Progress progress) {
    std::unique_lock lock(mutex_);
    while (finished_ < total) {
      changed_.wait_for(lock, std::chrono::milliseconds(200), [&] { return finished_ >= total; });
      progress(finished_);
    }
  }
  std::size_t finished() const {
    const std::lock_guard lock(mutex_);
    return finished_;
  }

 private:
  const std::int32_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::int32_t count_ = 0;
  std::size_t finished_ = 0;
};

// Sleeps most of the way and spins the rest: the kernel's wake-up alone would be late by a good part of a
// millisecond.
void WaitUntilDue(BenchClock::time_point due) {
  constexpr auto kSpin = std::chrono::microseconds(150);
  if (due - BenchClock::now() > kSpin) std::this_thread::sleep_until(due - kSpin);
  while (BenchClock::now() < due) std::this_thread::yield();
}

std::vector<RequestRecord> RunLoad(LoadClient* client, const std::vector<PlannedRequest>& workload,
                                   std::int32_t max_concurrency) {
  std::vector<RequestRecord> records(workload.size());
  InFlight in_flight(max_concurrency);
  ProgressBar bar("bench");
  const auto start = BenchClock::now() + std::chrono::milliseconds(50);
  client->SetStart(start);
  const auto progress = [&](std::size_t finished) {
    bar.Update(fmt::format("{} of {} answered", finished, workload.size()),
               static_cast<double>(finished) / static_cast<double>(workload.size()));
  };
  const bool terminal_updates = workload.size() < 100000;
  for (std::size_t i = 0; i < workload.size(); ++i) {
    RequestRecord& record = records[i];
    // Reserved here so that no client thread allocates while it measures.
    record.token_times.reserve(static_cast<std::size_t>(workload[i].max_tokens));
    record.due = workload[i].arrival_seconds;
    WaitUntilDue(start +
                 std::chrono::duration_cast<BenchClock::duration>(std::chrono::duration<double>(record.due)));
    in_flight.Begin();
    record.sent = std::chrono::duration<double>(BenchClock::now() - start).count();
    // In a closed loop a request is due when its turn comes.
    if (max_concurrency > 0) record.due = std::max(record.due, record.sent);
    client->Send(workload[i], &record, [&in_flight] { in_flight.End(); });
    if (terminal_updates && i % 64 == 0) progress(in_flight.finished());
  }
  in_flight.WaitFor(workload.size(), progress);
  bar.Finish();
  return records;
}

Result<std::unique_ptr<LoadClient>> MakeClient(const BenchOptions& options) {
  LoadClientOptions client = options.client;
  client.address = options.http.empty() ? options.grpc : options.http;
  if (!options.http.empty()) return MakeHttpClient(client);
#ifdef SKIPJACK_WITH_GRPC
  return MakeGrpcClient(client);
#else
  return Status::Unimplemented("this build has no gRPC: use --http");
#endif
}

int Fail(const Status& status) {
  fmt::print(stderr, "{}\n", status.ToString());
  return 1;
}

Status Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.flush();
  return file.good() ? Status::Ok() : Status::Internal("cannot write " + path);
}

int Bench(BenchOptions options) {
  Result<std::unique_ptr<LoadClient>> client = MakeClient(options);
  if (!client.ok()) return Fail(client.status());
  if (options.workload.vocabulary == 0) {
    // A server that does not say matters only where prompts are drawn, which MakeWorkload() refuses then.
    const Result<std::int32_t> vocabulary = (*client)->Vocabulary();
    options.workload.vocabulary = vocabulary.ok() ? *vocabulary : 0;
  }
  const Result<std::vector<PlannedRequest>> workload = MakeWorkload(options.workload);
  if (!workload.ok()) return Fail(workload.status());
  const std::vector<RequestRecord> records = RunLoad(client->get(), *workload, options.max_concurrency);
  const Report report = MakeReport(records, options.report);
  fmt::print("{}", ReportTable(report));
  if (!options.json.empty()) {
    if (Status s = Write(options.json, ReportJson(report).dump(2) + "\n"); !s.ok()) return Fail(s);
  }
  if (!options.records.empty()) {
    std::string lines;
    for (const RequestRecord& record : records) lines += RecordLine(record) + "\n";
    if (Status s = Write(options.records, lines); !s.ok()) return Fail(s);
  }
  return report.failed == report.requests ? 1 : 0;
}

}  // namespace

void AddBenchCommand(CLI::App* app, Run* run) {
  CLI::App* command = app->add_subcommand(
      "bench",
      "Load a server open-loop and report completion time, first-token time, gaps, throughput and goodput");
  auto options = std::make_shared<BenchOptions>();
  command->add_option("--grpc", options->grpc, "HOST:PORT of a daemon's gRPC")->capture_default_str();
  command->add_option("--http", options->http, "HOST:PORT of an OpenAI server, instead of gRPC");
  command->add_option("--model", options->client.model, "Which model (the server's only one)");
  command
      ->add_option(
          "--trace", options->workload.trace,
          "Replay a JSONL file: arrival_s, prompt (text) or prompt_tokens (a number), max_tokens; "
          "if wanted output_tokens (it ends after so many), tenant, priority (0 realtime, 1, 2 batch)")
      ->check(CLI::ExistingFile);
  command->add_option("--requests", options->workload.requests, "How many requests to draw")
      ->capture_default_str();
  command->add_option("--rate", options->workload.rate, "Arrivals per second; 0: all at once")
      ->capture_default_str();
  command->add_option("--arrivals", options->workload.arrivals, "poisson, gamma or uniform")
      ->capture_default_str();
  command->add_option("--cv", options->workload.cv, "Coefficient of variation of the gaps, with gamma")
      ->capture_default_str();
  command
      ->add_option(
          "--lengths", options->workload.lengths,
          "fixed:P:O, uniform:P1-P2:O1-O2, azure-conv, azure-code, sharegpt, lmsys, mooncake, heavy, zipf, "
          "reasoning or agent")
      ->capture_default_str();
  command->add_option("--max-prompt", options->workload.max_prompt_tokens, "Clip drawn prompts")
      ->capture_default_str();
  command->add_option("--max-output", options->workload.max_output_tokens, "Clip drawn outputs")
      ->capture_default_str();
  command->add_option("--seed", options->workload.seed, "Of everything drawn")->capture_default_str();
  command
      ->add_option("--vocabulary", options->workload.vocabulary, "Token ids to draw from (0: ask the server)")
      ->capture_default_str();
  command->add_option("--temperature", options->client.temperature, "0 is greedy")->capture_default_str();
  command->add_flag("!--obey-eos", options->client.ignore_eos,
                    "Let answers end by themselves instead of generating exactly max_tokens");
  command
      ->add_option("--max-concurrency", options->max_concurrency,
                   "Closed loop: at most so many requests under way (0: open loop)")
      ->capture_default_str();
  command
      ->add_option("--warmup", options->report.warmup_fraction,
                   "Leave this part of the requests, at the front, out")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 0.9));
  command->add_option("--slo-ttft", options->report.slo_ttft_seconds,
                      "Seconds to the first token; goodput counts the requests that meet every SLO given");
  command->add_option("--slo-tpot", options->report.slo_tpot_seconds, "Seconds per token after the first");
  command->add_option("--slo-jct", options->report.slo_jct_seconds, "Seconds to the last token");
  command->add_option("--json", options->json, "Write the report here too");
  command->add_option("--records", options->records, "Write every request here, a line of JSON each");
  command->callback([options, run] { *run = [options] { return Bench(*options); }; });
}

}  // namespace skipjack::cli
