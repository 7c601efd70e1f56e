#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace skipjack {
namespace {

// The pair index (not whole) whose frequency turns `turns` times over the original context.
double PairThatTurns(const RopeConfig& config, double turns) {
  const double wavelength = config.original_context / (turns * 2.0 * std::numbers::pi);
  return config.dimensions * std::log(wavelength) / (2.0 * std::log(static_cast<double>(config.base)));
}

// How much of pair i keeps its frequency: 1 up to pair `low`, 0 from pair `high` on.
struct YarnRamp {
  double low = 0;
  double high = 0;

  double Kept(double pair) const {
    const double position = (pair - low) / std::max(0.001, high - low);
    return 1.0 - std::clamp(position, 0.0, 1.0);
  }
};

YarnRamp MakeRamp(const RopeConfig& config) {
  return {std::max(0.0, std::floor(PairThatTurns(config, config.yarn_beta_fast))),
          std::min(config.dimensions - 1.0, std::ceil(PairThatTurns(config, config.yarn_beta_slow)))};
}

}  // namespace

RopeTable MakeRopeTable(const RopeConfig& config, std::span<const float> factors) {
  RopeTable table;
  const std::int32_t pairs = config.dimensions / 2;
  const bool yarn = config.scaling == RopeScalingKind::kYarn;
  const YarnRamp ramp = yarn ? MakeRamp(config) : YarnRamp{};
  table.inverse_frequencies.reserve(static_cast<std::size_t>(pairs));
  for (std::int32_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(static_cast<double>(config.base), -2.0 * i / config.dimensions);
    if (!factors.empty()) frequency /= static_cast<double>(factors[static_cast<std::size_t>(i)]);
    const double kept = yarn ? ramp.Kept(i) * static_cast<double>(config.yarn_ext_factor) : 0.0;
    const double scaled =
        config.scaling == RopeScalingKind::kNone ? frequency : frequency / static_cast<double>(config.factor);
    table.inverse_frequencies.push_back(static_cast<float>(scaled * (1.0 - kept) + frequency * kept));
  }
  if (yarn) {
    table.magnitude = config.yarn_attention_factor;
    if (config.yarn_ext_factor != 0.0f) table.magnitude *= 1.0f + 0.1f * std::log(config.factor);
  }
  return table;
}

std::vector<float> ReadRopeFactors(const TensorView& tensor) {
  if (tensor.empty()) return {};
  std::vector<float> factors(static_cast<std::size_t>(tensor.elements()));
  Dequantize(tensor.dtype, tensor.data, factors);
  return factors;
}

}  // namespace skipjack
