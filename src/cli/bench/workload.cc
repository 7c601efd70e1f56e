#include "cli/bench/workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/bench/lengths.h"

namespace skipjack::cli {
namespace {

std::vector<TokenId> RandomPrompt(Random& random, std::int32_t tokens, std::int32_t vocabulary) {
  const std::int32_t low = vocabulary / 16;
  std::vector<TokenId> ids(static_cast<std::size_t>(tokens));
  for (TokenId& id : ids) id = low + static_cast<TokenId>(Uniform(random) * (vocabulary - low));
  return ids;
}

// The gap to the next arrival.
Result<std::function<double(Random&)>> MakeGaps(const WorkloadOptions& options) {
  using Gaps = std::function<double(Random&)>;
  if (options.rate < 0)
    return Status::InvalidArgument(fmt::format("rate must be at least 0, got {}", options.rate));
  if (options.rate == 0) return Gaps([](Random&) { return 0.0; });
  const double mean = 1.0 / options.rate;
  if (options.arrivals == "uniform") return Gaps([mean](Random&) { return mean; });
  if (options.arrivals == "poisson")
    return Gaps([mean](Random& r) { return -std::log(1.0 - Uniform(r)) * mean; });
  if (options.arrivals == "gamma") {
    if (!(options.cv > 0))
      return Status::InvalidArgument(fmt::format("cv must be above 0, got {}", options.cv));
    const double shape = 1.0 / (options.cv * options.cv);
    return Gaps([mean, shape](Random& r) { return Gamma(r, shape) * mean / shape; });
  }
  return Status::InvalidArgument("arrivals '" + options.arrivals +
                                 "' are unknown; known: poisson, gamma, uniform");
}

Result<std::vector<PlannedRequest>> Draw(const WorkloadOptions& options) {
  if (options.requests < 1) return Status::InvalidArgument("requests must be at least 1");
  if (options.vocabulary < 32)
    return Status::InvalidArgument("the vocabulary is too small to draw prompts from");
  Result<LengthSampler> lengths = MakeLengthSampler(options.lengths);
  if (!lengths.ok()) return lengths.status();
  Result<std::function<double(Random&)>> gaps = MakeGaps(options);
  if (!gaps.ok()) return gaps.status();
  // Lengths, ids and gaps draw from streams of their own: changing the rate leaves the requests the same.
  Random length_random(options.seed);
  Random id_random(options.seed ^ 0x9e3779b97f4a7c15u);
  Random gap_random(options.seed ^ 0xc2b2ae3d27d4eb4fu);
  std::vector<PlannedRequest> requests(static_cast<std::size_t>(options.requests));
  double now = 0;
  for (PlannedRequest& request : requests) {
    const Lengths drawn = (*lengths)(length_random);
    request.prompt =
        RandomPrompt(id_random, std::min(drawn.prompt, options.max_prompt_tokens), options.vocabulary);
    request.max_tokens = std::min(drawn.output, options.max_output_tokens);
    request.arrival_seconds = now;
    now += (*gaps)(gap_random);
  }
  return requests;
}

Result<PlannedRequest> ParseTraceLine(const std::string& line, const WorkloadOptions& options,
                                      Random& random) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::InvalidArgument("no JSON object");
  PlannedRequest request;
  const auto number = [&](const char* key) -> Result<double> {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number())
      return Status::InvalidArgument(fmt::format("'{}' must be a number", key));
    return it->get<double>();
  };
  const Result<double> arrival = number("arrival_s");
  if (!arrival.ok()) return arrival.status();
  const Result<double> max_tokens = number("max_tokens");
  if (!max_tokens.ok()) return max_tokens.status();
  if (!(*arrival >= 0 && *arrival < 1e7)) return Status::InvalidArgument("'arrival_s' must lie in [0, 1e7)");
  if (!(*max_tokens >= 1 && *max_tokens <= 1e6))
    return Status::InvalidArgument("'max_tokens' must lie in [1, 1e6]");
  request.arrival_seconds = *arrival;
  request.max_tokens = static_cast<std::int32_t>(*max_tokens);
  if (const auto prompt = json.find("prompt"); prompt != json.end() && prompt->is_string()) {
    request.prompt = prompt->get<std::string>();
    return request;
  }
  const Result<double> tokens = number("prompt_tokens");
  if (!tokens.ok())
    return Status::InvalidArgument("either 'prompt' (a string) or 'prompt_tokens' (a number) is needed");
  if (!(*tokens >= 1 && *tokens <= 1e6))
    return Status::InvalidArgument("'prompt_tokens' must lie in [1, 1e6]");
  request.prompt = RandomPrompt(random, static_cast<std::int32_t>(*tokens), options.vocabulary);
  return request;
}

Result<std::vector<PlannedRequest>> ReadTrace(const WorkloadOptions& options) {
  std::ifstream file(options.trace);
  if (!file) return Status::NotFound("cannot read the trace " + options.trace);
  Random random(options.seed);
  std::vector<PlannedRequest> requests;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Result<PlannedRequest> request = ParseTraceLine(line, options, random);
    if (!request.ok()) {
      return Status::InvalidArgument(
          fmt::format("{}:{}: {}", options.trace, number, request.status().message()));
    }
    requests.push_back(std::move(request).value());
  }
  if (requests.empty()) return Status::InvalidArgument("the trace " + options.trace + " has no requests");
  std::stable_sort(requests.begin(), requests.end(), [](const PlannedRequest& a, const PlannedRequest& b) {
    return a.arrival_seconds < b.arrival_seconds;
  });
  return requests;
}

}  // namespace

Result<std::vector<PlannedRequest>> MakeWorkload(const WorkloadOptions& options) {
  return options.trace.empty() ? Draw(options) : ReadTrace(options);
}

}  // namespace skipjack::cli
