#include "cli/simulate/summary.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace skipjack::cli {
namespace {

nlohmann::json ToJson(const Quantity& q) {
  return {{"mean", q.mean}, {"p50", q.p50}, {"p95", q.p95}, {"p99", q.p99}};
}

}  // namespace

void SummarizeSamples(std::span<const Sample> samples, SimPoint* point) {
  const auto pick = [&](double Sample::*member) {
    std::vector<double> values;
    values.reserve(samples.size());
    for (const Sample& sample : samples) {
      if (member != &Sample::tpot || sample.has_tpot) values.push_back(sample.*member);
    }
    return Summarize(std::move(values));
  };
  point->jct = pick(&Sample::jct);
  point->normalized = pick(&Sample::normalized);
  point->ttft = pick(&Sample::ttft);
  point->tpot = pick(&Sample::tpot);
  point->slowdown = pick(&Sample::slowdown);
}

std::string SimTable(std::span<const SimPoint> points) {
  std::string out = fmt::format(
      "{:<12} {:>5} {:>7} | {:>8} {:>8} {:>8} {:>8} | {:>8} {:>8} | {:>7} {:>7} | {:>6} | {:>7} {:>7} | "
      "{:>6} {:>6} | {:>7} {:>6}\n",
      "policy", "load", "req/s", "JCT mean", "p50", "p95", "p99", "s/token", "p95", "TTFT", "p95", "TPOT",
      "slowdwn", "p95", "preemt", "redone", "swapped", "waited");
  for (const SimPoint& p : points) {
    out += fmt::format(
        "{:<12} {:>5.2f} {:>7.3f} | {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} | {:>8.4f} {:>8.4f} | {:>7.2f} "
        "{:>7.2f} | "
        "{:>6.4f} | {:>7.2f} {:>7.2f} | {:>6.2f} {:>5.1f}% | {:>7.0f} {:>5.1f}%\n",
        p.policy, p.load, p.rate, p.jct.mean, p.jct.p50, p.jct.p95, p.jct.p99, p.normalized.mean,
        p.normalized.p95, p.ttft.mean, p.ttft.p95, p.tpot.mean, p.slowdown.mean, p.slowdown.p95,
        p.preemptions_per_request, 100 * p.restoring_part, p.copied_tokens_per_request, 100 * p.copying_part);
  }
  return out;
}

nlohmann::json SimJson(std::span<const SimPoint> points) {
  nlohmann::json list = nlohmann::json::array();
  for (const SimPoint& p : points) {
    list.push_back({{"policy", p.policy},
                    {"load", p.load},
                    {"rate", p.rate},
                    {"requests", p.requests},
                    {"refused", p.refused},
                    {"jct", ToJson(p.jct)},
                    {"jct_mean_of_seeds", p.jct_mean_of_seeds},
                    {"normalized_latency", ToJson(p.normalized)},
                    {"ttft", ToJson(p.ttft)},
                    {"tpot", ToJson(p.tpot)},
                    {"slowdown", ToJson(p.slowdown)},
                    {"preemptions_per_request", p.preemptions_per_request},
                    {"promotions_per_request", p.promotions_per_request},
                    {"restored_token_part", p.restored_part},
                    {"restoring_time_part", p.restoring_part},
                    {"copied_tokens_per_request", p.copied_tokens_per_request},
                    {"copying_time_part", p.copying_part},
                    {"busy_part", p.busy_part},
                    {"output_tokens_per_second", p.output_tokens_per_second},
                    {"steps", p.steps},
                    {"wall_seconds", p.wall_seconds}});
  }
  return list;
}

}  // namespace skipjack::cli
