#include "cli/bench/lengths.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

namespace skipjack::cli {
namespace {

struct Quantile {
  double probability;
  double tokens;
};

// Medians and tails of the Azure 2023 traces (19,366 conversations, 8,819 code completions); between two
// points the logarithm of the length grows linearly with the probability.
constexpr std::array<Quantile, 7> kConversationPrompt = {
    {{0, 16}, {0.25, 390}, {0.5, 1020}, {0.9, 2734}, {0.95, 4083}, {0.99, 4142}, {1, 4150}}};
constexpr std::array<Quantile, 7> kConversationOutput = {
    {{0, 7}, {0.25, 85}, {0.5, 129}, {0.9, 424}, {0.95, 451}, {0.99, 601}, {1, 1000}}};
constexpr std::array<Quantile, 6> kCodePrompt = {
    {{0, 16}, {0.5, 1469}, {0.9, 5188}, {0.95, 7303}, {0.99, 7436}, {1, 7437}}};
constexpr std::array<Quantile, 7> kCodeOutput = {
    {{0, 4}, {0.5, 13}, {0.9, 55}, {0.95, 90}, {0.99, 251}, {0.999, 825}, {1, 1899}}};

std::int32_t Tokens(double value) {
  return static_cast<std::int32_t>(std::clamp(std::round(value), 1.0, 1e6));
}

std::int32_t FromQuantiles(std::span<const Quantile> table, Random& random) {
  const double p = Uniform(random);
  std::size_t high = 1;
  while (high + 1 < table.size() && table[high].probability < p) ++high;
  const Quantile& a = table[high - 1];
  const Quantile& b = table[high];
  const double t = (p - a.probability) / (b.probability - a.probability);
  return Tokens(std::exp(std::log(a.tokens) + t * (std::log(b.tokens) - std::log(a.tokens))));
}

std::int32_t LogNormal(Random& random, double mu, double sigma) {
  return Tokens(std::exp(mu + sigma * Normal(random)));
}

// P(k) ~ k^-theta over 1..2048, by inversion of the cumulative sum.
class Zipf {
 public:
  explicit Zipf(double theta) {
    double sum = 0;
    for (std::size_t k = 0; k < cumulative_.size(); ++k) {
      sum += std::pow(static_cast<double>(k + 1), -theta);
      cumulative_[k] = sum;
    }
  }
  std::int32_t operator()(Random& random) const {
    const double target = Uniform(random) * cumulative_.back();
    const auto at = std::upper_bound(cumulative_.begin(), cumulative_.end(), target);
    return static_cast<std::int32_t>(std::min<std::ptrdiff_t>(at - cumulative_.begin(), 2047)) + 1;
  }

 private:
  std::array<double, 2048> cumulative_{};
};

Result<LengthSampler> ParseFixed(const std::string& name) {
  Lengths lengths;
  int used = 0;
  if (std::sscanf(name.c_str(), "fixed:%d:%d%n", &lengths.prompt, &lengths.output, &used) != 2 ||
      static_cast<std::size_t>(used) != name.size() || lengths.prompt < 1 || lengths.output < 1) {
    return Status::InvalidArgument("lengths '" + name + "': expected fixed:PROMPT:OUTPUT, both at least 1");
  }
  return LengthSampler([lengths](Random&) { return lengths; });
}

Result<LengthSampler> ParseUniform(const std::string& name) {
  std::int32_t p1 = 0, p2 = 0, o1 = 0, o2 = 0;
  int used = 0;
  if (std::sscanf(name.c_str(), "uniform:%d-%d:%d-%d%n", &p1, &p2, &o1, &o2, &used) != 4 ||
      static_cast<std::size_t>(used) != name.size() || p1 < 1 || p2 < p1 || o1 < 1 || o2 < o1) {
    return Status::InvalidArgument("lengths '" + name +
                                   "': expected uniform:P1-P2:O1-O2 with 1 <= P1 <= P2, 1 <= O1 <= O2");
  }
  return LengthSampler([=](Random& random) {
    const auto draw = [&](std::int32_t low, std::int32_t high) {
      return low + static_cast<std::int32_t>(Uniform(random) * (high - low + 1));
    };
    return Lengths{draw(p1, p2), draw(o1, o2)};
  });
}

}  // namespace

double Uniform(Random& random) {
  return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

double Normal(Random& random) {
  constexpr double kTwoPi = 6.283185307179586;
  const double u = 1.0 - Uniform(random);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(kTwoPi * Uniform(random));
}

double Gamma(Random& random, double shape) {
  if (shape < 1) return Gamma(random, shape + 1) * std::pow(1.0 - Uniform(random), 1.0 / shape);
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = Normal(random);
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1.0 - Uniform(random)) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

Result<LengthSampler> MakeLengthSampler(const std::string& name) {
  if (name.starts_with("fixed:")) return ParseFixed(name);
  if (name.starts_with("uniform:")) return ParseUniform(name);
  if (name == "azure-conv") {
    return LengthSampler([](Random& r) {
      return Lengths{FromQuantiles(kConversationPrompt, r), FromQuantiles(kConversationOutput, r)};
    });
  }
  if (name == "azure-code") {
    return LengthSampler([](Random& r) {
      return Lengths{FromQuantiles(kCodePrompt, r), FromQuantiles(kCodeOutput, r)};
    });
  }
  if (name == "sharegpt") {
    return LengthSampler([](Random& r) { return Lengths{LogNormal(r, 4.2, 1.3), LogNormal(r, 5.5, 0.75)}; });
  }
  if (name == "lmsys") {
    return LengthSampler([](Random& r) {
      return Lengths{LogNormal(r, 3.97, 1.15), LogNormal(r, 5.08, 0.80)};
    });
  }
  if (name == "mooncake") {
    return LengthSampler([](Random& r) {
      return Lengths{LogNormal(r, 8.737, 1.199), LogNormal(r, 5.336, 1.358)};
    });
  }
  if (name == "agent") {
    // Outputs as in Mooncake's tool-and-agent trace: a median of 69 tokens, 389 at the ninth decile.
    return LengthSampler([](Random& r) {
      return Lengths{LogNormal(r, std::log(800.0), 0.7), LogNormal(r, std::log(69.0), 1.35)};
    });
  }
  if (name == "heavy") {
    return LengthSampler([](Random& r) {
      return Lengths{LogNormal(r, 5.0, 1.1), LogNormal(r, std::log(150.0), 1.6)};
    });
  }
  if (name == "zipf") {
    return LengthSampler([zipf = Zipf(1.0)](Random& r) { return Lengths{zipf(r), zipf(r)}; });
  }
  if (name == "reasoning") {
    return LengthSampler([](Random& r) {
      const std::int32_t prompt = LogNormal(r, 5.0, 1.0);
      return Lengths{prompt, LogNormal(r, std::log(Uniform(r) < 0.6 ? 200.0 : 4000.0), 0.4)};
    });
  }
  return Status::InvalidArgument(
      "lengths '" + name +
      "' are unknown; known: fixed:P:O, uniform:P1-P2:O1-O2, azure-conv, azure-code, "
      "sharegpt, lmsys, mooncake, heavy, zipf, reasoning, agent");
}

}  // namespace skipjack::cli
