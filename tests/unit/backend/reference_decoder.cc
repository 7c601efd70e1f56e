// The llama decoder as its papers write it, in double precision, with none of the engine's code.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/unit/backend/synthetic_model.h"

namespace skipjack {
namespace {

using Vector = std::vector<double>;

class Reference {
 public:
  explicit Reference(const SyntheticModel& model) : model_(model), config_(model.config) {
    keys_.resize(static_cast<std::size_t>(config_.layers));
    values_.resize(static_cast<std::size_t>(config_.layers));
  }

  Vector Next(TokenId token) {
    const std::vector<float>& table = Get("token_embd.weight");
    const auto hidden = static_cast<std::size_t>(config_.hidden);
    const auto row = table.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(token) * hidden);
    Vector x(row, row + static_cast<std::ptrdiff_t>(hidden));
    for (int layer = 0; layer < config_.layers; ++layer) Layer(layer, x);
    ++position_;
    return Times(config_.tied ? "token_embd.weight" : "output.weight", Norm(x, "output_norm.weight"));
  }

 private:
  const std::vector<float>& Get(const std::string& name) const { return model_.values.at(name); }

  Vector Norm(const Vector& x, const std::string& weight) const {
    double squares = 0.0;
    for (const double value : x) squares += value * value;
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    Vector y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * inverse * Get(weight)[i];
    return y;
  }

  Vector Times(const std::string& matrix, const Vector& x) const {
    const std::vector<float>& weights = Get(matrix);
    Vector y(weights.size() / x.size());
    for (std::size_t r = 0; r < y.size(); ++r) {
      for (std::size_t c = 0; c < x.size(); ++c) y[r] += weights[r * x.size() + c] * x[c];
    }
    return y;
  }

  void AddBias(Vector& y, const std::string& bias) const {
    if (!config_.biases) return;
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += Get(bias)[i];
  }

  // The angle of pair i at the current position, and what its rotation is multiplied by.
  std::pair<double, double> Angle(int i, int dimensions) const {
    const double base = config_.rope_base;
    double frequency = 1.0 / std::pow(base, 2.0 * i / dimensions);
    if (!config_.rope_factors.empty()) frequency /= config_.rope_factors[static_cast<std::size_t>(i)];
    if (config_.rope_scaling == "linear") return {position_ * frequency / config_.rope_factor, 1.0};
    if (config_.rope_scaling != "yarn") return {position_ * frequency, 1.0};
    // YaRN: pairs that turn more than 32 times in the original context stay, those below one turn are
    // interpolated.
    const auto pair_with_turns = [&](double turns) {
      return dimensions * std::log(config_.original_context / (turns * 2.0 * std::numbers::pi)) /
             (2.0 * std::log(base));
    };
    const double low = std::max(0.0, std::floor(pair_with_turns(32.0)));
    const double high = std::min(dimensions - 1.0, std::ceil(pair_with_turns(1.0)));
    const double ramp = std::clamp((i - low) / std::max(high - low, 0.001), 0.0, 1.0);
    const double blended = frequency / config_.rope_factor * ramp + frequency * (1.0 - ramp);
    return {position_ * blended, 1.0 + 0.1 * std::log(static_cast<double>(config_.rope_factor))};
  }

  void Rotate(Vector& heads) const {
    const int dimensions = config_.rope_dimensions > 0 ? config_.rope_dimensions : config_.head_dim;
    for (std::size_t head = 0; head < heads.size(); head += static_cast<std::size_t>(config_.head_dim)) {
      for (int i = 0; i < dimensions / 2; ++i) {
        const auto [angle, magnitude] = Angle(i, dimensions);
        double& even = heads[head + 2 * static_cast<std::size_t>(i)];
        double& odd = heads[head + 2 * static_cast<std::size_t>(i) + 1];
        const double rotated = (even * std::cos(angle) - odd * std::sin(angle)) * magnitude;
        odd = (even * std::sin(angle) + odd * std::cos(angle)) * magnitude;
        even = rotated;
      }
    }
  }

  Vector Attend(std::size_t layer, const Vector& query) const {
    const auto dim = static_cast<std::size_t>(config_.head_dim);
    const auto group = static_cast<std::size_t>(config_.heads / config_.kv_heads);
    Vector out(query.size());
    for (std::size_t head = 0; head < static_cast<std::size_t>(config_.heads); ++head) {
      const std::size_t kv = head / group * dim;
      Vector weights;
      for (const Vector& key : keys_[layer]) {
        double dot = 0.0;
        for (std::size_t d = 0; d < dim; ++d) dot += query[head * dim + d] * key[kv + d];
        weights.push_back(dot / std::sqrt(static_cast<double>(dim)));
      }
      const double most = *std::max_element(weights.begin(), weights.end());
      double sum = 0.0;
      for (double& weight : weights) sum += weight = std::exp(weight - most);
      for (std::size_t t = 0; t < weights.size(); ++t) {
        for (std::size_t d = 0; d < dim; ++d)
          out[head * dim + d] += weights[t] / sum * values_[layer][t][kv + d];
      }
    }
    return out;
  }

  void Layer(int layer, Vector& x) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    const auto index = static_cast<std::size_t>(layer);
    const Vector normed = Norm(x, prefix + "attn_norm.weight");
    Vector query = Times(prefix + "attn_q.weight", normed);
    Vector key = Times(prefix + "attn_k.weight", normed);
    Vector value = Times(prefix + "attn_v.weight", normed);
    AddBias(query, prefix + "attn_q.bias");
    AddBias(key, prefix + "attn_k.bias");
    AddBias(value, prefix + "attn_v.bias");
    Rotate(query);
    Rotate(key);
    keys_[index].push_back(key);
    values_[index].push_back(value);
    Vector attended = Times(prefix + "attn_output.weight", Attend(index, query));
    AddBias(attended, prefix + "attn_output.bias");
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += attended[i];

    const Vector again = Norm(x, prefix + "ffn_norm.weight");
    Vector gate = Times(prefix + "ffn_gate.weight", again);
    const Vector up = Times(prefix + "ffn_up.weight", again);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
    const Vector down = Times(prefix + "ffn_down.weight", gate);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += down[i];
  }

  const SyntheticModel& model_;
  const SyntheticConfig& config_;
  int position_ = 0;
  std::vector<std::vector<Vector>> keys_;
  std::vector<std::vector<Vector>> values_;
};

}  // namespace

std::vector<std::vector<double>> ReferenceLogits(const SyntheticModel& model,
                                                 const std::vector<TokenId>& tokens) {
  Reference reference(model);
  std::vector<std::vector<double>> logits;
  for (const TokenId token : tokens) logits.push_back(reference.Next(token));
  return logits;
}

}  // namespace skipjack
