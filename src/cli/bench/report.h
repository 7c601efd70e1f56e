// What a load test measured. All times are the client's, from the moment a request was due.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace skipjack::cli {

// One request as its client saw it; times in seconds after the start of the test.
struct RequestRecord {
  double due = 0;   // when the workload wanted it sent
  double sent = 0;  // when it was
  double finished = 0;
  std::vector<double> token_times;  // arrival of each token; tokens that came together share a time
  std::int32_t prompt_tokens = 0;
  std::int32_t completion_tokens = 0;  // as the server counts; 0: it did not say
  std::string error;                   // empty: it succeeded
};

struct ReportOptions {
  double warmup_fraction = 0.1;  // of the requests, dropped at the front
  // Goodput counts the requests that meet every bound that is set.
  std::optional<double> slo_ttft_seconds{}, slo_tpot_seconds{}, slo_jct_seconds{};
};

struct Distribution {
  std::size_t count = 0;
  double mean = 0, p50 = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

// Nearest-rank percentiles; all zero for no samples.
Distribution Summarize(std::vector<double> samples);

struct Report {
  std::size_t requests = 0, failed = 0;
  double duration_seconds = 0;
  double requests_per_second = 0, output_tokens_per_second = 0, total_tokens_per_second = 0;
  // Job completion time, time to first token, mean gap of a request after its first token, every gap, and JCT
  // divided by output tokens.
  Distribution jct, ttft, tpot, gap, normalized;
  Distribution dispatch_lag;  // sent - due: how well the generator kept to its plan
  // Requests that met the SLO; unset without one. Failed ones did not.
  std::optional<double> goodput_per_second, goodput_fraction;
  std::vector<std::string> errors;  // distinct messages with counts, most frequent first
};

Report MakeReport(const std::vector<RequestRecord>& records, const ReportOptions& options);
std::string ReportTable(const Report& report);
nlohmann::ordered_json ReportJson(const Report& report);

// One request as a line of JSON: when it was due and sent, got its first and its last token, in seconds.
std::string RecordLine(const RequestRecord& record);

}  // namespace skipjack::cli
