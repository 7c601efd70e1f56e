#include "cli/bench/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace skipjack::cli {
namespace {

std::string Row(const char* name, const Distribution& d, double scale, const char* unit) {
  return fmt::format("{:<22}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}  {}\n", name,
                     d.mean * scale, d.p50 * scale, d.p90 * scale, d.p95 * scale, d.p99 * scale,
                     d.max * scale, unit);
}

nlohmann::ordered_json Json(const Distribution& d) {
  return {{"count", d.count}, {"mean", d.mean}, {"p50", d.p50}, {"p90", d.p90},
          {"p95", d.p95},     {"p99", d.p99},   {"max", d.max}};
}

std::vector<std::string> CountErrors(const std::vector<RequestRecord>& records) {
  std::map<std::string, std::size_t> counts;
  for (const RequestRecord& record : records) {
    if (!record.error.empty()) ++counts[record.error];
  }
  std::vector<std::pair<std::size_t, std::string>> sorted;
  for (const auto& [message, count] : counts) sorted.emplace_back(count, message);
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<std::string> out;
  for (const auto& [count, message] : sorted) out.push_back(fmt::format("{} x {}", count, message));
  return out;
}

// Of one request that was answered.
struct Figures {
  double tokens = 0;
  double first = 0;     // TTFT
  double whole = 0;     // JCT
  double mean_gap = 0;  // TPOT; 0 for a single token

  explicit Figures(const RequestRecord& record)
      // Some servers send no event for a token that completes no character, so their own count is the better
      // one.
      : tokens(std::max(static_cast<double>(record.token_times.size()), 1.0 * record.completion_tokens)),
        first(record.token_times.front() - record.due),
        whole(record.token_times.back() - record.due),
        mean_gap(tokens > 1 ? (whole - first) / (tokens - 1) : 0) {}

  bool Meets(const ReportOptions& slo) const {
    return first <= slo.slo_ttft_seconds.value_or(INFINITY) &&
           mean_gap <= slo.slo_tpot_seconds.value_or(INFINITY) &&
           whole <= slo.slo_jct_seconds.value_or(INFINITY);
  }
};

}  // namespace

Distribution Summarize(std::vector<double> samples) {
  Distribution out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  const auto rank = [&](double p) {
    const auto at = static_cast<std::size_t>(std::ceil(p * static_cast<double>(samples.size())));
    return samples[std::clamp<std::size_t>(at, 1, samples.size()) - 1];
  };
  out.count = samples.size();
  out.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  out.p50 = rank(0.50);
  out.p90 = rank(0.90);
  out.p95 = rank(0.95);
  out.p99 = rank(0.99);
  out.max = samples.back();
  return out;
}

Report MakeReport(const std::vector<RequestRecord>& records, const ReportOptions& options) {
  Report report;
  report.errors = CountErrors(records);
  const auto skipped =
      static_cast<std::size_t>(options.warmup_fraction * static_cast<double>(records.size()));
  std::vector<double> jct, ttft, tpot, gap, normalized, lag;
  double begin = INFINITY;
  double end = 0;
  double output_tokens = 0;
  double prompt_tokens = 0;
  std::size_t good = 0;
  for (std::size_t i = skipped; i < records.size(); ++i) {
    const RequestRecord& record = records[i];
    ++report.requests;
    lag.push_back(record.sent - record.due);
    begin = std::min(begin, record.due);
    end = std::max(end, record.finished);
    if (!record.error.empty() || record.token_times.empty()) {
      ++report.failed;
      continue;
    }
    const Figures figures(record);
    jct.push_back(figures.whole);
    ttft.push_back(figures.first);
    normalized.push_back(figures.whole / figures.tokens);
    if (figures.tokens > 1) tpot.push_back(figures.mean_gap);
    for (std::size_t t = 1; t < record.token_times.size(); ++t) {
      gap.push_back(record.token_times[t] - record.token_times[t - 1]);
    }
    output_tokens += figures.tokens;
    prompt_tokens += record.prompt_tokens;
    good += figures.Meets(options) ? 1 : 0;
  }
  if (report.requests == 0) return report;
  report.duration_seconds = std::max(end - begin, 1e-9);
  report.requests_per_second = static_cast<double>(report.requests - report.failed) / report.duration_seconds;
  report.output_tokens_per_second = output_tokens / report.duration_seconds;
  report.total_tokens_per_second = (output_tokens + prompt_tokens) / report.duration_seconds;
  if (options.slo_ttft_seconds || options.slo_tpot_seconds || options.slo_jct_seconds) {
    report.goodput_per_second = static_cast<double>(good) / report.duration_seconds;
    report.goodput_fraction = static_cast<double>(good) / static_cast<double>(report.requests);
  }
  report.jct = Summarize(std::move(jct));
  report.ttft = Summarize(std::move(ttft));
  report.tpot = Summarize(std::move(tpot));
  report.gap = Summarize(std::move(gap));
  report.normalized = Summarize(std::move(normalized));
  report.dispatch_lag = Summarize(std::move(lag));
  return report;
}

std::string ReportTable(const Report& report) {
  std::string out = fmt::format("{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "", "mean", "p50", "p90",
                                "p95", "p99", "max");
  out += Row("JCT", report.jct, 1e3, "ms");
  out += Row("TTFT", report.ttft, 1e3, "ms");
  out += Row("TPOT", report.tpot, 1e3, "ms");
  out += Row("inter-token gap", report.gap, 1e3, "ms");
  out += Row("normalized latency", report.normalized, 1e3, "ms/token");
  out += Row("dispatch lag", report.dispatch_lag, 1e3, "ms");
  out += fmt::format(
      "{} requests ({} failed) in {:.2f} s: {:.2f} requests/s, {:.1f} output tok/s, {:.1f} total tok/s\n",
      report.requests, report.failed, report.duration_seconds, report.requests_per_second,
      report.output_tokens_per_second, report.total_tokens_per_second);
  if (report.goodput_fraction) {
    out += fmt::format("goodput under the SLO: {:.2f} requests/s ({:.1f} %)\n", *report.goodput_per_second,
                       *report.goodput_fraction * 100);
  }
  for (const std::string& error : report.errors) out += "error: " + error + "\n";
  return out;
}

nlohmann::ordered_json ReportJson(const Report& report) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  return {{"requests", report.requests},
          {"failed", report.failed},
          {"duration_s", report.duration_seconds},
          {"requests_per_s", report.requests_per_second},
          {"output_tokens_per_s", report.output_tokens_per_second},
          {"total_tokens_per_s", report.total_tokens_per_second},
          {"goodput_per_s", optional(report.goodput_per_second)},
          {"goodput_fraction", optional(report.goodput_fraction)},
          {"jct_s", Json(report.jct)},
          {"ttft_s", Json(report.ttft)},
          {"tpot_s", Json(report.tpot)},
          {"inter_token_gap_s", Json(report.gap)},
          {"normalized_latency_s", Json(report.normalized)},
          {"dispatch_lag_s", Json(report.dispatch_lag)},
          {"errors", report.errors}};
}

std::string RecordLine(const RequestRecord& record) {
  const std::vector<double>& times = record.token_times;
  nlohmann::ordered_json line = {{"due_s", record.due},
                                 {"sent_s", record.sent},
                                 {"prompt_tokens", record.prompt_tokens},
                                 {"output_tokens", times.size()}};
  if (!times.empty()) {
    line["first_token_s"] = times.front();
    line["last_token_s"] = times.back();
  }
  if (!record.error.empty()) line["error"] = record.error;
  return line.dump();
}

}  // namespace skipjack::cli
