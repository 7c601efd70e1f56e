#include "sampling/row_distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "sampling/philox.h"

namespace skipjack {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();
// Undecided tokens that are sorted rather than halved once more.
constexpr std::int32_t kFewTokens = 128;
// Blocks that a draw weighs beforehand.
constexpr std::int32_t kFewBlocks = 64;
// More than the rounding of a block's sum.
constexpr float kSumMargin = 1.0f + 4e-6f;
// Distances from the maximum, in units of temperature (nats), at which the search for a mass starts and ends.
constexpr double kFirstDepth = 2.0;
constexpr double kLastDepth = 128.0;  // weights are 0 from 88 on

// Floats as integers in the same order, so that halving an interval takes at most 32 steps whatever its
// scale.
std::int32_t OrderedBits(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits < 0 ? bits ^ std::numeric_limits<std::int32_t>::max() : bits;
}

float FromOrderedBits(std::int32_t bits) {
  return std::bit_cast<float>(bits < 0 ? bits ^ std::numeric_limits<std::int32_t>::max() : bits);
}

// Strictly between the two, or `low` when they are neighbours.
float Between(float low, float high) {
  const std::int64_t sum = std::int64_t{OrderedBits(low)} + OrderedBits(high);
  return FromOrderedBits(static_cast<std::int32_t>(sum >> 1));
}

float NextUp(float value) {
  return std::nextafter(value, kInfinity);
}

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
  for (const Candidate& candidate : GatherSorted(LogitView(), {last.logit, kInfinity})) {
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

double RowDistribution::MassAtLeast(const KeyView& view, float threshold) {
  if (threshold > view.maximum) return 0.0;
  return kernels_.sum_weights(view.row, view.block_maxima, threshold, Cache());
}

double RowDistribution::ExactKeptMass() {
  WeighDownTo(boundary_.logit);
  const float above = NextUp(boundary_.logit);
  double mass = MassAtLeast(LogitView(), above);
  for (const Candidate& tie : GatherSorted(LogitView(), {boundary_.logit, above})) {
    if (tie.token <= boundary_.token) mass += static_cast<double>(tie.weight);
  }
  return mass;
}

std::span<const RowDistribution::Candidate> RowDistribution::GatherSorted(const KeyView& view,
                                                                          Bracket bracket) {
  candidates_.clear();
  for (std::int32_t block = 0; block < view.row.blocks; ++block) {
    if (view.block_maxima[block] < bracket.low) continue;
    const std::int32_t first = block * kBlockWidth;
    const float* keys = block < view.row.full_blocks ? view.row.data + first : view.row.tail;
    const bool weighed = block_ready_[static_cast<std::size_t>(block)] != 0;
    const float* weights = weights_.get() + first;
    for (std::int32_t i = 0; i < kBlockWidth; ++i) {
      if (keys[i] < bracket.low || keys[i] >= bracket.high) continue;
      candidates_.push_back({keys[i], first + i, weighed ? weights[i] : 0.0f});
    }
  }
  // One key only, as with many equal logits: they are in order already.
  if (bracket.high > NextUp(bracket.low)) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.key != b.key ? a.key > b.key : a.token < b.token;
    });
  }
  return candidates_;
}

// At least `count` blocks have their maximum above a threshold, so at least `count` tokens do: the block
// maxima alone give a first threshold that leaves few blocks to read.
RowDistribution::Bracket RowDistribution::BracketCount(std::int32_t count, std::int32_t* above_high) {
  Bracket bracket = {kLowest, NextUp(scale_.maximum)};
  float high = bracket.high;
  std::int32_t blocks = kernels_.count_values(block_maxima_.data(), row_.blocks, bracket.low);
  while (blocks > count + count / 2 + 4) {
    const float middle = Between(bracket.low, high);
    if (middle == bracket.low) break;
    const std::int32_t there = kernels_.count_values(block_maxima_.data(), row_.blocks, middle);
    if (there >= count) {
      bracket.low = middle;
      blocks = there;
    } else {
      high = middle;
    }
  }
  std::int32_t above_low = kernels_.count_row(row_, block_maxima_.data(), bracket.low);
  *above_high = 0;
  while (above_low - *above_high > kFewTokens) {
    const float middle = Between(bracket.low, bracket.high);
    if (middle == bracket.low) break;
    const std::int32_t there = kernels_.count_row(row_, block_maxima_.data(), middle);
    if (there >= count) {
      bracket.low = middle;
      above_low = there;
    } else {
      bracket.high = middle;
      *above_high = there;
    }
  }
  return bracket;
}

Boundary RowDistribution::FindByCount(std::int32_t count) {
  if (static_cast<std::size_t>(count) >= logits_.size()) return {};
  std::int32_t above = 0;
  const Bracket bracket = BracketCount(count, &above);
  const auto undecided = GatherSorted(LogitView(), bracket);
  const auto index = static_cast<std::size_t>(count - above - 1);
  if (index >= undecided.size()) return {};  // fewer than `count` tokens are above -inf
  return {undecided[index].key, undecided[index].token};
}

// Decides with as few weights as the question needs.
bool RowDistribution::MassReachesShare(double mass, double share) {
  while (true) {
    const MassRange kept = KeptMass();
    if (mass >= share * kept.high) return true;
    if (mass < share * kept.low || !WeighMore()) return false;
  }
}

bool RowDistribution::ReachesShare(const KeyView& view, float threshold, double share) {
  return MassReachesShare(MassAtLeast(view, threshold), share);
}

// For logits: steps down from the maximum until the share is reached, weighing blocks on the way; then
// halves.
RowDistribution::Bracket RowDistribution::BracketMass(const KeyView& view, double share) {
  Bracket bracket = {kLowest, NextUp(view.maximum)};
  for (double depth = kFirstDepth; depth <= kLastDepth; depth *= 2.0) {
    const double threshold = static_cast<double>(view.maximum) - depth * static_cast<double>(view.unit);
    if (threshold <= static_cast<double>(kLowest)) break;
    WeighDownTo(static_cast<float>(threshold));
    if (ReachesShare(view, static_cast<float>(threshold), share)) {
      bracket.low = static_cast<float>(threshold);
      break;
    }
    bracket.high = std::min(bracket.high, static_cast<float>(threshold));
  }
  if (bracket.low == kLowest) WeighDownTo(kLowest);
  std::int32_t above_low = kernels_.count_row(view.row, view.block_maxima, bracket.low);
  std::int32_t above_high = kernels_.count_row(view.row, view.block_maxima, bracket.high);
  while (above_low - above_high > kFewTokens) {
    const float middle = Between(bracket.low, bracket.high);
    if (middle == bracket.low) break;
    if (ReachesShare(view, middle, share)) {
      bracket.low = middle;
      above_low = kernels_.count_row(view.row, view.block_maxima, middle);
    } else {
      bracket.high = middle;
      above_high = kernels_.count_row(view.row, view.block_maxima, middle);
    }
  }
  return bracket;
}

Boundary RowDistribution::FindByMass(const KeyView& view, double share) {
  const Bracket bracket = BracketMass(view, share);
  double mass = MassAtLeast(view, bracket.high);
  const auto undecided = GatherSorted(view, bracket);
  for (const Candidate& candidate : undecided) {
    mass += static_cast<double>(candidate.weight);
    if (MassReachesShare(mass, share)) return {candidate.key, candidate.token};
  }
  return {};  // only rounding keeps the sum below the share: all are needed
}

void RowDistribution::Narrow(const Boundary& boundary) {
  if (!boundary_.Keeps(boundary.logit, boundary.token)) return;
  boundary_ = boundary;
  restricted_ = boundary.logit > kLowest;
  kept_mass_known_ = false;
}

void RowDistribution::KeepTopK(std::int32_t k) {
  Narrow(FindByCount(k));
}

void RowDistribution::KeepTopP(float p) {
  Narrow(FindByMass(LogitView(), static_cast<double>(p)));
}

void RowDistribution::KeepMinP(float min_p) {
  const double distance = static_cast<double>(temperature_) * std::log(static_cast<double>(min_p));
  const double threshold = static_cast<double>(scale_.maximum) + distance;
  // Everything at or above the threshold: the smallest float that is not below it.
  auto logit = static_cast<float>(std::max(threshold, static_cast<double>(kLowest)));
  if (static_cast<double>(logit) < threshold) logit = NextUp(logit);
  Narrow({logit, std::numeric_limits<TokenId>::max()});
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
  KeyView view = {Blocked(typical_keys_.data(), &tail), typical_maxima_.data(), 0.0f, 1.0f};
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
