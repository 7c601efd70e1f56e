#include "cli/simulate/sim_workload.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/bench/lengths.h"

namespace skipjack::cli {
namespace {

struct Draw {
  std::int32_t prompt = 1;
  std::int32_t output = 1;
  int tenant = 0;
};

std::int32_t LogNormal(Random& random, double median, double sigma) {
  return static_cast<std::int32_t>(
      std::clamp(std::round(median * std::exp(sigma * Normal(random))), 1.0, 1e6));
}

// FastServe's setting: ShareGPT-like, prompts up to 1,024 tokens.
Draw ShareGpt(Random& random) {
  Draw draw;
  draw.prompt = std::min(LogNormal(random, std::exp(4.2), 1.3), 1024);
  draw.output = LogNormal(random, std::exp(5.5), 0.75);
  return draw;
}

// Alpaca-like: log-normal around the published means of 19.3 and 58.5 tokens.
Draw Alpaca(Random& random) {
  return {LogNormal(random, 15, 0.7), LogNormal(random, 40, 0.87), 0};
}

constexpr double kHeavySigma = 1.2;

// A heavy tail: median 150, mean 285, 95 % below 1,101. Nothing tells a long answer beforehand.
Draw Heavy(Random& random) {
  Draw draw;
  draw.prompt = std::min(LogNormal(random, std::exp(5.0), 1.1), 1500);
  draw.output = LogNormal(random, 150, kHeavySigma);
  return draw;
}

// The same lengths, sent by eight tenants: the octiles of a guess at the logarithm of the length whose error
// has a standard deviation of 0.8.
Draw Classes(Random& random) {
  Draw draw;
  draw.prompt = std::min(LogNormal(random, std::exp(5.0), 1.1), 1500);
  const double length = kHeavySigma * Normal(random);
  draw.output = static_cast<std::int32_t>(std::clamp(std::round(150 * std::exp(length)), 1.0, 1e6));
  const double guess = (length + 0.8 * Normal(random)) / std::hypot(kHeavySigma, 0.8);
  draw.tenant = std::clamp(static_cast<int>(8 * 0.5 * std::erfc(-guess / std::sqrt(2.0))), 0, 7);
  return draw;
}

struct Named {
  const char* name;
  const char* meaning;
  Draw (*draw)(Random&);
  double cv;  // of the gaps
};

constexpr std::array kNamed = {
    Named{"sharegpt-2k", "ShareGPT-like, prompts up to 1,024 tokens, Poisson: FastServe's setting", ShareGpt,
          1},
    Named{"alpaca", "Alpaca-like, short, Poisson", Alpaca, 1},
    Named{"heavy-tail", "outputs log-normal (ln 150, 1.2), bursty (CV 2); lengths independent of everything",
          Heavy, 2},
    Named{"classes", "as heavy-tail, but tenants differ: each is an octile of a rough guess at the length",
          Classes, 2},
};

Result<std::int32_t> MaxTokens(const SimWorkload& options, const Draw& draw) {
  const std::int32_t room = options.context_length - draw.prompt;
  if (options.max_tokens == "full") return room;
  if (options.max_tokens == "exact") return draw.output;
  if (options.max_tokens == "pow2") {
    return std::min(static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(draw.output))), room);
  }
  return Status::InvalidArgument("max-tokens '" + options.max_tokens +
                                 "' is unknown; known: full, pow2, exact");
}

std::string TenantName(int tenant) {
  return tenant == 0 ? std::string() : "tenant-" + std::to_string(tenant);
}

void SpreadArrivals(const SimWorkload& options, double cv, std::vector<SimulatedRequest>* requests) {
  const double rate = options.rate.value_or(1);
  if (rate <= 0) return;
  Random random(options.seed ^ 0xc2b2ae3d27d4eb4fu);
  const double shape = 1 / (cv * cv);
  double seconds = 0;
  for (SimulatedRequest& request : *requests) {
    const double gap = cv == 1 ? -std::log(1.0 - Uniform(random)) : Gamma(random, shape) / shape;
    seconds += gap / rate;
    request.arrival = TimePoint(FromSeconds(seconds));
  }
}

Result<std::vector<SimulatedRequest>> DrawAll(const SimWorkload& options) {
  const auto named = std::ranges::find_if(kNamed, [&](const Named& n) { return options.name == n.name; });
  LengthSampler lengths;
  if (named == kNamed.end()) {
    Result<LengthSampler> sampler = MakeLengthSampler(options.name);
    if (!sampler.ok()) {
      std::string known;
      for (const Named& n : kNamed) known += fmt::format("{}, ", n.name);
      return Status::InvalidArgument("workload: " + sampler.status().message() + "; also " +
                                     known.substr(0, known.size() - 2));
    }
    lengths = std::move(*sampler);
  }
  const double cv = options.cv > 0 ? options.cv : named != kNamed.end() ? named->cv : 1;
  Random random(options.seed);
  std::vector<SimulatedRequest> requests(static_cast<std::size_t>(options.requests));
  for (SimulatedRequest& request : requests) {
    Draw draw;
    if (named != kNamed.end()) {
      draw = named->draw(random);
    } else {
      const Lengths drawn = lengths(random);
      draw = {drawn.prompt, drawn.output, 0};
    }
    draw.prompt = std::clamp(draw.prompt, 1, options.context_length - 1);
    draw.output = std::clamp(draw.output, 1, options.context_length - draw.prompt);
    const Result<std::int32_t> max_tokens = MaxTokens(options, draw);
    if (!max_tokens.ok()) return max_tokens.status();
    request.prompt_tokens = draw.prompt;
    request.output_tokens = draw.output;
    request.max_tokens = *max_tokens;
    request.tenant = TenantName(draw.tenant);
  }
  SpreadArrivals(options, cv, &requests);
  return requests;
}

Result<SimulatedRequest> ParseLine(const std::string& line, const SimWorkload& options) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::InvalidArgument("no JSON object");
  Status status;
  const auto number = [&](const char* key, double least, double most, double absent) {
    const auto it = json.find(key);
    if (it == json.end() && absent >= 0) return absent;
    const double value = it != json.end() && it->is_number() ? it->get<double>() : -1;
    if (!(value >= least && value <= most) && status.ok()) {
      status = Status::InvalidArgument(fmt::format("'{}' must be a number in [{}, {}]", key, least, most));
    }
    return value;
  };
  SimulatedRequest request;
  const double arrival = number("arrival_s", 0, 1e7, -1);
  const double prompt = number("prompt_tokens", 1, 1e6, -1);
  const double asked = number("max_tokens", 1, 1e6, -1);
  // Bench's traces force max_tokens; a recorded trace says how many were generated.
  const double output = number("output_tokens", 1, 1e6, asked > 0 ? asked : -1);
  const double priority = number("priority", 0, 2, 1);
  if (!status.ok()) return status;
  request.arrival = TimePoint(FromSeconds(arrival));
  request.prompt_tokens = static_cast<std::int32_t>(prompt);
  request.output_tokens = static_cast<std::int32_t>(output);
  request.max_tokens = static_cast<std::int32_t>(asked);
  request.priority = static_cast<PriorityClass>(priority);
  if (const auto it = json.find("tenant"); it != json.end() && it->is_string())
    request.tenant = it->get<std::string>();
  if (request.output_tokens > request.max_tokens) {
    return Status::InvalidArgument(fmt::format("'output_tokens' ({}) is over 'max_tokens' ({})",
                                               request.output_tokens, request.max_tokens));
  }
  if (request.prompt_tokens + request.max_tokens > options.context_length) {
    return Status::InvalidArgument(fmt::format("prompt_tokens + max_tokens is {}, the context length {}",
                                               request.prompt_tokens + request.max_tokens,
                                               options.context_length));
  }
  return request;
}

Result<std::vector<SimulatedRequest>> ReadTrace(const SimWorkload& options) {
  std::ifstream file(options.trace);
  if (!file) return Status::NotFound("cannot read the trace " + options.trace);
  std::vector<SimulatedRequest> requests;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Result<SimulatedRequest> request = ParseLine(line, options);
    if (!request.ok()) {
      return Status::InvalidArgument(
          fmt::format("{}:{}: {}", options.trace, number, request.status().message()));
    }
    requests.push_back(std::move(request).value());
  }
  if (requests.empty()) return Status::InvalidArgument("the trace " + options.trace + " has no requests");
  std::ranges::stable_sort(requests, {}, &SimulatedRequest::arrival);
  const TimePoint first = requests.front().arrival;
  const double span = ToSeconds(requests.back().arrival - first);
  const double own = span > 0 ? static_cast<double>(requests.size() - 1) / span : 0;
  const double rate = options.rate.value_or(own);
  const double factor = rate > 0 ? own / rate : 0;
  for (SimulatedRequest& request : requests) {
    request.arrival = TimePoint(FromSeconds(ToSeconds(request.arrival - first) * factor));
  }
  return requests;
}

}  // namespace

std::vector<std::string> WorkloadNames() {
  std::vector<std::string> names;
  for (const Named& named : kNamed) names.push_back(fmt::format("{}: {}", named.name, named.meaning));
  return names;
}

std::string TraceLine(const SimulatedRequest& request) {
  nlohmann::ordered_json line = {{"arrival_s", ToSeconds(request.arrival - TimePoint())},
                                 {"prompt_tokens", request.prompt_tokens},
                                 {"max_tokens", request.max_tokens},
                                 {"output_tokens", request.output_tokens}};
  if (!request.tenant.empty()) line["tenant"] = request.tenant;
  if (request.priority != PriorityClass::kInteractive) line["priority"] = static_cast<int>(request.priority);
  return line.dump();
}

Result<std::vector<SimulatedRequest>> MakeSimWorkload(const SimWorkload& options) {
  if (options.context_length < 2) return Status::InvalidArgument("the context length must be at least 2");
  if (!options.trace.empty()) return ReadTrace(options);
  if (options.requests < 1) return Status::InvalidArgument("requests must be at least 1");
  return DrawAll(options);
}

}  // namespace skipjack::cli
