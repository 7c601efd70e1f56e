// The search for the boundary: by the number of tokens above it, or by what they weigh together.
#include <algorithm>
#include <bit>

#include "sampling/row_distribution.h"
#include "sampling/row_numbers.h"

namespace skipjack {
namespace {

using row::kFirstDepth;
using row::kInfinity;
using row::kLastDepth;
using row::kLowest;
using row::NextUp;

// Undecided tokens that are sorted rather than halved once more.
constexpr std::int32_t kFewTokens = 128;
// Steps of the search for a mass after which halving takes over from interpolation.
constexpr int kLineSteps = 12;

// Floats as integers in the same order, so that halving an interval takes at most 32 steps whatever its
// scale.
std::int32_t OrderedBits(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits < 0 ? bits ^ std::numeric_limits<std::int32_t>::max() : bits;
}

float FromOrderedBits(std::int32_t bits) {
  return std::bit_cast<float>(bits < 0 ? bits ^ std::numeric_limits<std::int32_t>::max() : bits);
}

// Strictly between the two, or `low` when they are neighbours. Mostly the mean; every third step halves the
// number of floats between them, so that no scale takes more than a hundred steps.
float Middle(float low, float high, int step) {
  const float mean = low / 2 + high / 2;
  if (step % 3 != 2 && mean > low && mean < high) return mean;
  const std::int64_t sum = std::int64_t{OrderedBits(low)} + OrderedBits(high);
  return FromOrderedBits(static_cast<std::int32_t>(sum >> 1));
}

// Chooses thresholds by regula falsi with the Illinois rule (Dowell and Jarratt, 1971): where a straight line
// between the ends meets the wanted mass; an end that stays for a second time counts half, so that both ends
// close in.
class MassLine {
 public:
  template <typename Bracket>
  float Probe(const Bracket& bracket, double mass) const {
    const double over = (bracket.from_low.mass - mass) * low_pull_;
    const double under = (mass - bracket.from_high.mass) * high_pull_;
    const double low = static_cast<double>(bracket.low);
    const double high = static_cast<double>(bracket.high);
    const auto point = static_cast<float>(low + (high - low) * (over / (over + under)));
    return point > bracket.low && point < bracket.high ? point : Middle(bracket.low, bracket.high, 0);
  }

  void Moved(bool low_end) {
    if (low_end == moved_low_ && moved_) {
      (low_end ? high_pull_ : low_pull_) *= 0.5;
    } else {
      low_pull_ = high_pull_ = 1.0;
    }
    moved_ = true;
    moved_low_ = low_end;
  }

 private:
  double low_pull_ = 1.0;
  double high_pull_ = 1.0;
  bool moved_ = false;
  bool moved_low_ = false;
};

template <typename Bracket>
void Narrow(Bracket* bracket, float key, const Tally& from_key, bool boundary_is_at_or_above) {
  (boundary_is_at_or_above ? bracket->low : bracket->high) = key;
  (boundary_is_at_or_above ? bracket->from_low : bracket->from_high) = from_key;
}

}  // namespace

std::span<const RowDistribution::Candidate> RowDistribution::GatherSorted(const KeyView& view, float low,
                                                                          float high) {
  const std::int32_t count = kernels_.gather(view.row, view.block_maxima, low, high, gathered_.get());
  candidates_.clear();
  for (std::int32_t i = 0; i < count; ++i) {
    const TokenId token = gathered_[static_cast<std::size_t>(i)];
    const std::int32_t block = token / kBlockWidth;
    const float key =
        block < view.row.full_blocks ? view.row.data[token] : view.row.tail[token % kBlockWidth];
    const bool weighed = block_ready_[static_cast<std::size_t>(block)] != 0;
    candidates_.push_back({key, token, weighed ? weights_[static_cast<std::size_t>(token)] : 0.0f});
  }
  // One key only, as with many equal logits: they are in order already.
  if (high > NextUp(low)) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
      return a.key != b.key ? a.key > b.key : a.token < b.token;
    });
  }
  return candidates_;
}

// At least `count` blocks have their maximum above a threshold, so at least `count` tokens do: the block
// maxima alone give a first threshold that leaves few blocks to read.
RowDistribution::Bracket RowDistribution::BracketCount(std::int32_t count) {
  float low = kLowest;
  float high = NextUp(scale_.maximum);
  std::int32_t blocks = kernels_.count_values(block_maxima_.data(), row_.blocks, low);
  for (int step = 0; blocks > count + count / 2 + 4; ++step) {
    const float middle = Middle(low, high, step);
    if (middle == low) break;
    const std::int32_t there = kernels_.count_values(block_maxima_.data(), row_.blocks, middle);
    if (there >= count) {
      low = middle;
      blocks = there;
    } else {
      high = middle;
    }
  }
  Bracket bracket = {low, NextUp(scale_.maximum), CountFrom(LogitView(), low), {}};
  for (int step = 0; bracket.undecided() > kFewTokens; ++step) {
    const float middle = Middle(bracket.low, bracket.high, step);
    if (middle == bracket.low) break;
    const Tally there = CountFrom(LogitView(), middle);
    Narrow(&bracket, middle, there, there.count >= count);
  }
  return bracket;
}

Boundary RowDistribution::FindByCount(std::int32_t count) {
  if (static_cast<std::size_t>(count) >= logits_.size()) return {};
  const Bracket bracket = BracketCount(count);
  const auto undecided = GatherSorted(LogitView(), bracket.low, bracket.high);
  const auto index = static_cast<std::size_t>(count - bracket.from_high.count - 1);
  if (index >= undecided.size()) return {};  // fewer than `count` tokens are above -inf
  return {undecided[index].key, undecided[index].token};
}

// Decides with as few weights as the question needs.
bool RowDistribution::ReachesShare(double mass, double share) {
  while (true) {
    const MassRange kept = KeptMass();
    if (mass >= share * kept.high) return true;
    if (mass < share * kept.low || !WeighMore()) return false;
  }
}

// Steps down from the maximum until the share is reached, weighing blocks on the way; then narrows the last
// step.
RowDistribution::Bracket RowDistribution::BracketMass(const KeyView& view, double share) {
  // Unfiltered, counting what is above -inf is not worth a pass.
  const Tally all = view.floor > kLowest ? CountFrom(view, view.floor) : Tally{view.tokens, 0.0};
  Bracket bracket = {view.floor, NextUp(view.maximum), all, {}};
  if (bracket.undecided() <= kFewTokens) {
    WeighDownTo(boundary_.logit);
    return bracket;
  }
  bool reached = false;
  for (double depth = kFirstDepth; depth <= kLastDepth && !reached; depth *= 2.0) {
    const double threshold = static_cast<double>(view.maximum) - depth * static_cast<double>(view.unit);
    if (threshold <= static_cast<double>(view.floor)) break;
    const auto key = static_cast<float>(threshold);
    WeighDownTo(key);
    const Tally there = TallyFrom(view, key);
    reached = ReachesShare(there.mass, share);
    Narrow(&bracket, key, there, reached);
  }
  if (!reached) {
    WeighDownTo(boundary_.logit);
    bracket.from_low = TallyFrom(view, bracket.low);
  }
  MassLine line;
  for (int step = 0; bracket.undecided() > kFewTokens; ++step) {
    const float key = step < kLineSteps ? line.Probe(bracket, share * KeptMass().high)
                                        : Middle(bracket.low, bracket.high, step);
    if (key == bracket.low) break;
    const Tally there = TallyFrom(view, key);
    const bool low_end = ReachesShare(there.mass, share);
    Narrow(&bracket, key, there, low_end);
    line.Moved(low_end);
  }
  return bracket;
}

Boundary RowDistribution::FindByMass(const KeyView& view, double share) {
  KeptMass();  // where it gathers candidates itself, it must do so before the ones below
  const Bracket bracket = BracketMass(view, share);
  double mass = bracket.from_high.mass;
  for (const Candidate& candidate : GatherSorted(view, bracket.low, bracket.high)) {
    mass += static_cast<double>(candidate.weight);
    if (ReachesShare(mass, share)) return {candidate.key, candidate.token};
  }
  return {};  // only rounding keeps the sum below the share: all are needed
}

}  // namespace skipjack
