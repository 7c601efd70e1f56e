#include "sched/latency_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace skipjack {
namespace {

// Brings the terms to like sizes, so that one weak pull suits them all: a term's unit is so many.
constexpr std::array<double, 5> kScales = {1, 8, 8192, 256, 262144};

// A step's weight halves every 2,048 steps.
constexpr double kFade = 0.99966159;
// The pull towards the previous coefficients: worth this part of one step with all terms at their unit.
constexpr double kPull = 1e-3;
constexpr std::uint64_t kFitEvery = 64;
constexpr double kLevelsHold = 1.25;

std::array<double, 5> ToArray(const LatencyCoefficients& c) {
  return {c.step, c.decoder, c.context, c.prompt_token, c.prompt_pair};
}

// Solves for the terms in `active` by Cholesky's method; the others are 0. `matrix` is symmetric and, with
// the pull on its diagonal, positive definite.
std::array<double, 5> Solve(const std::array<std::array<double, 5>, 5>& matrix,
                            const std::array<double, 5>& right, const std::array<bool, 5>& active) {
  std::array<std::array<double, 5>, 5> lower{};
  std::array<double, 5> y{};
  std::array<double, 5> x{};
  for (std::size_t i = 0; i < 5; ++i) {
    if (!active[i]) continue;
    for (std::size_t j = 0; j <= i; ++j) {
      if (!active[j]) continue;
      double sum = matrix[i][j];
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i][k] * lower[j][k];
      lower[i][j] = i == j ? std::sqrt(std::max(sum, 1e-300)) : sum / lower[j][j];
    }
    y[i] = right[i];
    for (std::size_t k = 0; k < i; ++k) y[i] -= lower[i][k] * y[k];
    y[i] /= lower[i][i];
  }
  for (std::size_t i = 5; i-- > 0;) {
    if (!active[i]) continue;
    x[i] = y[i];
    for (std::size_t k = i + 1; k < 5; ++k) {
      if (active[k]) x[i] -= lower[k][i] * x[k];
    }
    x[i] /= lower[i][i];
  }
  return x;
}

}  // namespace

LatencyModel::LatencyModel(const LatencyCoefficients& learnt) : coefficients_(learnt) {
  fitted_ = learnt != LatencyCoefficients{};
  if (fitted_) iteration_ = std::max(FromSeconds(learnt.step + learnt.decoder), Duration(1000));
}

void LatencyModel::Observe(const StepLoad& load, Duration duration) {
  if (duration <= Duration::zero() || load.decoders + load.prompt_tokens <= 0) return;
  Vector terms = {1, load.decoders, load.context, load.prompt_tokens, load.prompt_pairs};
  for (std::size_t i = 0; i < kTerms; ++i) terms[i] /= kScales[i];
  const double seconds = ToSeconds(duration);
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) products_[i][j] = products_[i][j] * kFade + terms[i] * terms[j];
    targets_[i] = targets_[i] * kFade + terms[i] * seconds;
  }
  if (++observed_ < next_fit_) return;
  Fit();
  next_fit_ = observed_ + std::min(observed_, kFitEvery);
}

void LatencyModel::Fit() {
  const Vector before = ToArray(coefficients_);
  auto matrix = products_;
  Vector right = targets_;
  for (std::size_t i = 0; i < kTerms; ++i) {
    matrix[i][i] += kPull;
    right[i] += kPull * before[i] * kScales[i];
  }
  // A term whose best coefficient is negative has none; without it the others are solved again.
  std::array<bool, kTerms> active;
  active.fill(true);
  Vector solved = Solve(matrix, right, active);
  for (std::size_t round = 0; round < kTerms; ++round) {
    const auto lowest = std::ranges::min_element(solved);
    if (*lowest >= 0) break;
    active[static_cast<std::size_t>(lowest - solved.begin())] = false;
    solved = Solve(matrix, right, active);
  }
  for (std::size_t i = 0; i < kTerms; ++i) solved[i] = std::max(solved[i], 0.0) / kScales[i];
  coefficients_ = {solved[0], solved[1], solved[2], solved[3], solved[4]};
  const double iteration = std::max(coefficients_.step + coefficients_.decoder, 1e-6);
  const double held = ToSeconds(iteration_);
  if (!fitted_ || iteration > held * kLevelsHold || iteration < held / kLevelsHold) {
    iteration_ = FromSeconds(iteration);
  }
  fitted_ = true;
}

double LatencyModel::StepSeconds(const StepLoad& load) const {
  const LatencyCoefficients& c = coefficients_;
  return c.step + c.decoder * load.decoders + c.context * load.context + c.prompt_token * load.prompt_tokens +
         c.prompt_pair * load.prompt_pairs;
}

double LatencyModel::ChunkSeconds(std::int32_t tokens, std::int32_t position) const {
  const double x = tokens;
  return coefficients_.prompt_token * x + coefficients_.prompt_pair * (x * position + x * (x + 1) / 2);
}

double LatencyModel::PrefillSeconds(std::int32_t tokens, std::int32_t position) const {
  return tokens <= 0 ? 0 : coefficients_.step + ChunkSeconds(tokens, position);
}

std::int32_t LatencyModel::ChunkWithin(double seconds, std::int32_t position, std::int32_t limit) const {
  if (ChunkSeconds(limit, position) <= seconds) return limit;
  if (seconds <= 0) return 0;
  // e/2 x^2 + (d + e (position + 1/2)) x = seconds, solved in the form that does not cancel.
  const double linear = coefficients_.prompt_token + coefficients_.prompt_pair * (position + 0.5);
  const double root = std::sqrt(linear * linear + 2 * coefficients_.prompt_pair * seconds);
  return std::clamp(static_cast<std::int32_t>(2 * seconds / (linear + root)), 0, limit);
}

void LatencyModel::ObserveCopies(Tier tier, std::int32_t blocks, double seconds) {
  constexpr double kFading = 0.1;
  if (blocks <= 0 || seconds <= 0) return;
  Copies& copies = copies_[static_cast<std::size_t>(tier)];
  const double each = seconds / blocks;
  copies.seconds =
      std::exchange(copies.seen, true) ? copies.seconds + kFading * (each - copies.seconds) : each;
}

}  // namespace skipjack
