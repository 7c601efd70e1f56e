#include "sampling/row_distribution.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sampling/philox.h"
#include "sampling/row_numbers.h"

namespace skipjack {
namespace {

using row::kFirstDepth;
using row::kInfinity;
using row::kLastDepth;
using row::kLowest;
using row::NextUp;

// Blocks that a draw weighs beforehand.
constexpr std::int32_t kFewBlocks = 64;
// More than the rounding of a block's sum.
constexpr float kSumMargin = 1.0f + 4e-6f;

std::int32_t BlocksFor(std::int64_t tokens) {
  return static_cast<std::int32_t>((tokens + kBlockWidth - 1) / kBlockWidth);
}

}  // namespace

RowDistribution::RowDistribution(std::int32_t vocabulary, const VocabularyKernels& kernels)
    : kernels_(kernels) {
  const auto blocks = static_cast<std::size_t>(BlocksFor(vocabulary));
  block_maxima_.resize(blocks);
  block_bounds_.resize(blocks);
  block_sums_.resize(blocks);
  block_ready_.resize(blocks);
  cumulative_bounds_.resize(blocks);
  typical_maxima_.resize(blocks);
  weights_ = std::make_unique_for_overwrite<float[]>(blocks * kBlockWidth);
  gathered_ = std::make_unique_for_overwrite<TokenId[]>(blocks * kBlockWidth);
  typical_keys_.reserve(static_cast<std::size_t>(vocabulary));
  candidates_.reserve(static_cast<std::size_t>(vocabulary));
}

BlockedRow RowDistribution::Blocked(const float* data, std::array<float, kBlockWidth>* tail) const {
  const auto tokens = static_cast<std::int64_t>(logits_.size());
  const auto full = static_cast<std::int32_t>(tokens / kBlockWidth);
  tail->fill(-kInfinity);
  std::copy(data + static_cast<std::int64_t>(full) * kBlockWidth, data + tokens, tail->begin());
  return {data, tail->data(), full, BlocksFor(tokens)};
}

RowDistribution::Condition RowDistribution::Load(std::span<float> logits) {
  logits_ = logits;
  row_ = Blocked(logits.data(), &tail_);
  const ScanResult scan = kernels_.scan(row_, block_maxima_.data());
  temperature_ = 1.0f;
  scale_ = {scan.maximum, static_cast<float>(std::numbers::log2e)};
  ResetWeights();
  if (scan.has_nan || scan.maximum == kInfinity) return Condition::kNonFinite;
  return scan.maximum == -kInfinity ? Condition::kEmpty : Condition::kGood;
}

void RowDistribution::ResetWeights() {
  std::fill_n(block_ready_.begin(), row_.blocks, std::uint8_t{0});
  weighed_down_to_ = kInfinity;
  bounds_ready_ = false;
  kept_mass_known_ = false;
  restricted_ = false;
  boundary_ = {};
}

void RowDistribution::SetTemperature(float temperature) {
  temperature_ = temperature;
  scale_.scale = static_cast<float>(std::numbers::log2e / static_cast<double>(temperature));
  ResetWeights();
}

TokenId RowDistribution::Argmax() const {
  const auto block = std::find(block_maxima_.begin(), block_maxima_.begin() + row_.blocks, scale_.maximum) -
                     block_maxima_.begin();
  const auto first = logits_.begin() + block * kBlockWidth;
  return static_cast<TokenId>(std::find(first, logits_.end(), scale_.maximum) - logits_.begin());
}

double RowDistribution::LogSum() const {
  const WeightScale unit = {scale_.maximum, static_cast<float>(std::numbers::log2e)};
  return std::log(kernels_.total_weight(row_, block_maxima_.data(), unit));
}

void RowDistribution::Best(std::int32_t count, std::vector<TokenLogprob>* best) {
  best->clear();
  if (count <= 0) return;
  const Boundary last = FindByCount(count);
  for (const Candidate& candidate : GatherSorted(LogitView(), last.logit, kInfinity)) {
    if (!last.Keeps(candidate.key, candidate.token)) break;
    best->push_back({candidate.token, candidate.key});
  }
}

WeightCache RowDistribution::Cache() {
  return {weights_.get(), block_sums_.data(), block_ready_.data()};
}

void RowDistribution::EnsureBounds() {
  if (bounds_ready_) return;
  kernels_.bound_blocks(block_maxima_.data(), row_.blocks, scale_, block_bounds_.data());
  bounds_ready_ = true;
}

void RowDistribution::WeighDownTo(float threshold) {
  if (threshold >= weighed_down_to_) return;
  kernels_.weigh_row(row_, block_maxima_.data(), threshold, scale_, Cache());
  weighed_down_to_ = threshold;
  if (!restricted_) kept_mass_known_ = false;
}

bool RowDistribution::WeighMore() {
  if (weighed_down_to_ <= kLowest) return false;
  const double temperature = static_cast<double>(temperature_);
  const double maximum = static_cast<double>(scale_.maximum);
  const double depth = (maximum - static_cast<double>(weighed_down_to_)) / temperature;
  const double deeper = std::max(2.0 * depth, kFirstDepth);
  const double threshold = maximum - deeper * temperature;
  WeighDownTo(deeper > kLastDepth || threshold <= static_cast<double>(kLowest)
                  ? kLowest
                  : static_cast<float>(threshold));
  return true;
}

RowDistribution::MassRange RowDistribution::KeptMass() {
  if (kept_mass_known_) return kept_mass_;
  if (restricted_) {
    const double mass = ExactKeptMass();
    kept_mass_ = {mass, mass};
  } else {
    EnsureBounds();
    double weighed = 0.0;
    double bounded = 0.0;
    for (std::int32_t block = 0; block < row_.blocks; ++block) {
      const auto i = static_cast<std::size_t>(block);
      if (block_ready_[i] != 0) {
        weighed += static_cast<double>(block_sums_[i]);
      } else {
        bounded += static_cast<double>(block_bounds_[i]);
      }
    }
    kept_mass_ = {weighed, weighed + bounded};
  }
  kept_mass_known_ = true;
  return kept_mass_;
}

Tally RowDistribution::TallyFrom(const KeyView& view, float threshold) {
  if (threshold > view.maximum) return {};
  return kernels_.tally_row(view.row, view.block_maxima, threshold, Cache());
}

Tally RowDistribution::CountFrom(const KeyView& view, float threshold) const {
  return {kernels_.count_row(view.row, view.block_maxima, threshold), 0.0};
}

double RowDistribution::ExactKeptMass() {
  WeighDownTo(boundary_.logit);
  const float above = NextUp(boundary_.logit);
  double mass = TallyFrom(LogitView(), above).mass;
  for (const Candidate& tie : GatherSorted(LogitView(), boundary_.logit, above)) {
    if (tie.token <= boundary_.token) mass += static_cast<double>(tie.weight);
  }
  return mass;
}

void RowDistribution::Restrict(const Boundary& boundary) {
  if (!boundary_.Keeps(boundary.logit, boundary.token)) return;
  boundary_ = boundary;
  restricted_ = boundary.logit > kLowest;
  kept_mass_known_ = false;
}

void RowDistribution::KeepTopK(std::int32_t k) {
  Restrict(FindByCount(k));
}

void RowDistribution::KeepTopP(float p) {
  Restrict(FindByMass(LogitView(), static_cast<double>(p)));
}

void RowDistribution::KeepMinP(float min_p) {
  const double distance = static_cast<double>(temperature_) * std::log(static_cast<double>(min_p));
  const double threshold = static_cast<double>(scale_.maximum) + distance;
  // Everything at or above the threshold: the smallest float that is not below it.
  auto logit = static_cast<float>(std::max(threshold, static_cast<double>(kLowest)));
  if (static_cast<double>(logit) < threshold) logit = NextUp(logit);
  Restrict({logit, std::numeric_limits<TokenId>::max()});
}

// With w the weights and M their sum, the information content of token i is log M - d_i, d_i = (logit -
// maximum) / temperature, and the entropy is log M - c with c the mean of d: distances to the entropy are
// |d_i - c|.
void RowDistribution::KeepTypical(float p) {
  WeighDownTo(kLowest);
  const std::size_t tokens = logits_.size();
  typical_keys_.resize(tokens);
  double mass = 0.0;
  double weighted = 0.0;
  const double inverse = 1.0 / static_cast<double>(temperature_);
  for (std::size_t i = 0; i < tokens; ++i) {
    if (!Keeps(static_cast<TokenId>(i)) || weights_[i] == 0.0f) continue;
    const double weight = static_cast<double>(weights_[i]);
    mass += weight;
    weighted += weight * (static_cast<double>(logits_[i]) - static_cast<double>(scale_.maximum)) * inverse;
  }
  const double center = weighted / mass;
  for (std::size_t i = 0; i < tokens; ++i) {
    const double d = (static_cast<double>(logits_[i]) - static_cast<double>(scale_.maximum)) * inverse;
    const bool kept = Keeps(static_cast<TokenId>(i)) && weights_[i] != 0.0f;
    typical_keys_[i] = kept ? static_cast<float>(-std::abs(d - center)) : -kInfinity;
  }
  std::array<float, kBlockWidth> tail;
  KeyView view = {Blocked(typical_keys_.data(), &tail), typical_maxima_.data(), 0.0f, 1.0f, kLowest,
                  static_cast<std::int32_t>(tokens)};
  view.maximum = kernels_.scan(view.row, typical_maxima_.data()).maximum;
  kept_mass_ = {mass, mass};
  kept_mass_known_ = true;
  const Boundary last = FindByMass(view, static_cast<double>(p));
  for (std::size_t i = 0; i < tokens; ++i) {
    if (!last.Keeps(typical_keys_[i], static_cast<TokenId>(i))) logits_[i] = -kInfinity;
  }
  const float temperature = temperature_;
  Load(logits_);
  SetTemperature(temperature);
}

// Weighs the few best blocks, however deep they reach: most of the mass of a peaked distribution is in them.
void RowDistribution::WeighBestBlocks() {
  for (double depth = 1.0; depth <= kLastDepth; depth *= 2.0) {
    const double threshold = static_cast<double>(scale_.maximum) - depth * static_cast<double>(temperature_);
    if (threshold <= static_cast<double>(kLowest)) return;
    const auto logit = static_cast<float>(threshold);
    if (kernels_.count_values(block_maxima_.data(), row_.blocks, logit) > kFewBlocks) return;
    WeighDownTo(logit);
  }
}

// cumulative_bounds_[b]: upper bounds of the weights of all blocks up to b that hold a kept token.
double RowDistribution::AccumulateBounds() {
  EnsureBounds();
  double total = 0.0;
  for (std::int32_t block = 0; block < row_.blocks; ++block) {
    const auto i = static_cast<std::size_t>(block);
    if (boundary_.Keeps(block_maxima_[i], block * kBlockWidth)) {
      const float bound = block_ready_[i] != 0 ? block_sums_[i] * kSumMargin : block_bounds_[i];
      total += static_cast<double>(bound);
    }
    cumulative_bounds_[i] = total;
  }
  return total;
}

// Rejection sampling under the blocks' upper bounds: a random point on the line of all bounds falls into some
// block; the block's kept tokens cover the first part of its stretch, and a point beyond them is drawn anew.
// Exact for any bounds. A block that takes part keeps its own maximum, so each point hits with probability
// 1/64 at least.
TokenId RowDistribution::Draw(std::uint64_t seed, std::uint64_t position) {
  constexpr std::uint32_t kAttempts = 1u << 16;  // all in vain with probability 10^-448
  WeighBestBlocks();
  const double total = AccumulateBounds();
  const auto end = cumulative_bounds_.begin() + row_.blocks;
  for (std::uint32_t attempt = 0; attempt < kAttempts; ++attempt) {
    const double point = UniformAt(seed, position, attempt) * total;
    const auto hit = std::upper_bound(cumulative_bounds_.begin(), end, point);
    if (hit == end) continue;  // the product rounded up to the total
    const auto block = static_cast<std::int32_t>(hit - cumulative_bounds_.begin());
    const double offset = point - (block > 0 ? *(hit - 1) : 0.0);
    const std::int32_t first = block * kBlockWidth;
    const float* logits = block < row_.full_blocks ? row_.data + first : row_.tail;
    float* weights = weights_.get() + first;
    if (block_ready_[static_cast<std::size_t>(block)] == 0) kernels_.weigh_block(logits, scale_, weights);
    double sum = 0.0;
    for (std::int32_t i = 0; i < kBlockWidth; ++i) {
      if (!boundary_.Keeps(logits[i], first + i)) continue;
      sum += static_cast<double>(weights[i]);
      if (offset < sum) return first + i;
    }
  }
  return Argmax();
}

}  // namespace skipjack
