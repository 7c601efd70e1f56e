#include "cli/bench/workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/bench/lengths.h"

namespace skipjack::cli {
namespace {

// An upper bound of what agents' requests share with earlier ones (Mooncake's tool-and-agent trace, by
// blocks).
constexpr double kAgentReuse = 0.64;
constexpr std::size_t kAgentMemory = 64;  // a prompt continues one of so many before it

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

Status CheckVocabulary(const WorkloadOptions& options) {
  if (options.vocabulary >= 32) return {};
  return Status::InvalidArgument(fmt::format(
      "prompts are drawn from the vocabulary, which needs at least 32 ids, got {}: say --vocabulary",
      options.vocabulary));
}

// Draws prompts of which a part continues an earlier one, so that they form trees of shared prefixes.
class PromptTrees {
 public:
  std::vector<TokenId> Next(Random& random, std::int32_t tokens, std::int32_t vocabulary) {
    std::vector<TokenId> prompt;
    if (!recent_.empty()) {
      const auto pick = static_cast<std::size_t>(Uniform(random) * static_cast<double>(recent_.size()));
      const auto wanted = static_cast<std::size_t>(std::lround(kAgentReuse * tokens));
      const std::vector<TokenId>* parent = &recent_[pick];
      for (std::size_t i = 0; i < recent_.size() && parent->size() < wanted; ++i) {
        const std::vector<TokenId>& other = recent_[(pick + i) % recent_.size()];
        if (other.size() > parent->size()) parent = &other;
      }
      const std::size_t shared = std::min(wanted, parent->size());
      prompt.assign(parent->begin(), parent->begin() + static_cast<std::ptrdiff_t>(shared));
    }
    const std::vector<TokenId> rest =
        RandomPrompt(random, tokens - static_cast<std::int32_t>(prompt.size()), vocabulary);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    if (recent_.size() < kAgentMemory) {
      recent_.push_back(prompt);
    } else {
      recent_[next_++ % kAgentMemory] = prompt;
    }
    return prompt;
  }

 private:
  std::vector<std::vector<TokenId>> recent_;
  std::size_t next_ = 0;
};

Result<std::vector<PlannedRequest>> Draw(const WorkloadOptions& options) {
  if (options.requests < 1) return Status::InvalidArgument("requests must be at least 1");
  if (Status s = CheckVocabulary(options); !s.ok()) return s;
  Result<LengthSampler> lengths = MakeLengthSampler(options.lengths);
  if (!lengths.ok()) return lengths.status();
  Result<std::function<double(Random&)>> gaps = MakeGaps(options);
  if (!gaps.ok()) return gaps.status();
  // Lengths, ids and gaps draw from streams of their own: changing the rate leaves the requests the same.
  Random length_random(options.seed);
  Random id_random(options.seed ^ 0x9e3779b97f4a7c15u);
  Random gap_random(options.seed ^ 0xc2b2ae3d27d4eb4fu);
  std::vector<PlannedRequest> requests(static_cast<std::size_t>(options.requests));
  const bool trees = options.lengths == "agent";
  PromptTrees prompts;
  double now = 0;
  for (PlannedRequest& request : requests) {
    const Lengths drawn = (*lengths)(length_random);
    const std::int32_t tokens = std::min(drawn.prompt, options.max_prompt_tokens);
    request.prompt = trees ? prompts.Next(id_random, tokens, options.vocabulary)
                           : RandomPrompt(id_random, tokens, options.vocabulary);
    request.max_tokens = std::min(drawn.output, options.max_output_tokens);
    request.output_tokens = request.max_tokens;
    request.arrival_seconds = now;
    now += (*gaps)(gap_random);
  }
  return requests;
}

// "output_tokens", "tenant", "priority" (0 realtime, 1, 2 batch).
Status TakeOptional(const nlohmann::json& json, PlannedRequest* request) {
  request->output_tokens = request->max_tokens;
  if (const auto it = json.find("output_tokens"); it != json.end()) {
    if (!it->is_number() || !(it->get<double>() >= 1 && it->get<double>() <= request->max_tokens)) {
      return Status::InvalidArgument("'output_tokens' must lie in [1, max_tokens]");
    }
    request->output_tokens = static_cast<std::int32_t>(it->get<double>());
  }
  if (const auto it = json.find("tenant"); it != json.end()) {
    if (!it->is_string()) return Status::InvalidArgument("'tenant' must be a string");
    request->tenant = it->get<std::string>();
  }
  if (const auto it = json.find("priority"); it != json.end()) {
    if (!it->is_number_integer() || it->get<int>() < 0 || it->get<int>() > 2) {
      return Status::InvalidArgument("'priority' must be 0, 1 or 2");
    }
    request->priority = it->get<int>();
  }
  return {};
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
  if (Status s = TakeOptional(json, &request); !s.ok()) return s;
  if (const auto prompt = json.find("prompt"); prompt != json.end() && prompt->is_string()) {
    request.prompt = prompt->get<std::string>();
    return request;
  }
  const Result<double> tokens = number("prompt_tokens");
  if (!tokens.ok())
    return Status::InvalidArgument("either 'prompt' (a string) or 'prompt_tokens' (a number) is needed");
  if (!(*tokens >= 1 && *tokens <= 1e6))
    return Status::InvalidArgument("'prompt_tokens' must lie in [1, 1e6]");
  if (Status s = CheckVocabulary(options); !s.ok()) return s;
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
