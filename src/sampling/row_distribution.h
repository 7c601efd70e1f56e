// One row of logits seen as a distribution over the vocabulary: its maximum, its best tokens, the usual
// filters and a draw, without sorting the vocabulary and mostly without an exponential per token.
//
// Tokens have one total order, "best first": higher logit first, lower id first among equals. top_k, top_p
// and min_p each keep a prefix of that order, so what they leave is one boundary (logit, id). It is found by
// searching for a threshold between two logits until few tokens remain undecided, which are sorted; blocks of
// 64 tokens whose maximum lies below the threshold are never read. Results are those of sorting everything,
// up to the rounding of weights (float) and of their sums (double).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"
#include "sampling/sampling_params.h"
#include "sampling/vocabulary_kernels.h"

namespace skipjack {

// The last token that is kept; all better ones are kept too.
struct Boundary {
  float logit = std::numeric_limits<float>::lowest();
  TokenId token = std::numeric_limits<TokenId>::max();

  bool Keeps(float other_logit, TokenId other_token) const {
    return other_logit > logit || (other_logit == logit && other_token <= token);
  }
};

// Not thread-safe; reused from row to row. Its memory (about 24 bytes per token of the vocabulary) is
// allocated at construction and touched where a row needs it; no later call allocates.
class RowDistribution {
 public:
  enum class Condition : std::uint8_t {
    kGood,
    kNonFinite,  // a NaN or +inf
    kEmpty,      // -inf everywhere
  };

  explicit RowDistribution(std::int32_t vocabulary,
                           const VocabularyKernels& kernels = BestVocabularyKernels());

  // Reads a row of 1 to `vocabulary` logits, which must stay as they are while they are used here; only
  // KeepTypical() writes to them. Nothing is filtered and the temperature is 1. All other calls need kGood.
  Condition Load(std::span<float> logits);

  float maximum() const { return scale_.maximum; }
  // The best token.
  TokenId Argmax() const;
  // Natural logarithm of the sum of exp(logit - maximum) over the row, at temperature 1.
  double LogSum() const;
  // The `count` best tokens, or all above -inf where there are fewer, best first, with their logits in
  // `logprob`.
  void Best(std::int32_t count, std::vector<TokenLogprob>* best);

  // The filters act on exp(logit / temperature), each on what those before it left. SetTemperature() comes
  // first.
  void SetTemperature(float temperature);
  // The k best tokens.
  void KeepTopK(std::int32_t k);
  // Meister et al., "Locally typical sampling" (TACL 2023): the fewest tokens that lie nearest to the entropy
  // by their information content and together have probability p. The logits of all others become -inf.
  void KeepTypical(float p);
  // The fewest best tokens that together have probability p.
  void KeepTopP(float p);
  // The tokens that have at least min_p times the probability of the best.
  void KeepMinP(float min_p);
  // What the filters left.
  bool Keeps(TokenId token) const { return boundary_.Keeps(logits_[static_cast<std::size_t>(token)], token); }

  // One token of what is left, by its probability: a pure function of the row, the filters, `seed` and
  // `position`.
  TokenId Draw(std::uint64_t seed, std::uint64_t position);

 private:
  // What is searched through: logits, or KeepTypical()'s distances. Weights belong to the token, not to the
  // key.
  struct KeyView {
    BlockedRow row;
    const float* block_maxima = nullptr;
    float maximum = 0.0f;
    float unit = 1.0f;   // keys per factor e in weight
    float floor = 0.0f;  // no kept token's key is lower
    std::int32_t tokens = 0;
  };
  struct Candidate {
    float key = 0.0f;
    TokenId token = 0;
    float weight = 0.0f;  // 0 while its block is not weighed
  };
  // The boundary's key lies in [low, high). The tallies are those of all tokens from `low` or `high` on.
  struct Bracket {
    float low = 0.0f;
    float high = 0.0f;
    Tally from_low;
    Tally from_high;

    std::int32_t undecided() const { return from_low.count - from_high.count; }
  };
  // A sum of weights of which only a part has been computed.
  struct MassRange {
    double low = 0.0;
    double high = 0.0;
  };

  BlockedRow Blocked(const float* data, std::array<float, kBlockWidth>* tail) const;
  KeyView LogitView() const {
    const auto tokens = static_cast<std::int32_t>(logits_.size());
    return {row_, block_maxima_.data(), scale_.maximum, temperature_, boundary_.logit, tokens};
  }
  WeightCache Cache();
  void ResetWeights();
  void EnsureBounds();

  // Weighs every block that has a logit at or above `threshold`.
  void WeighDownTo(float threshold);
  // Weighs further blocks; false when all are.
  bool WeighMore();
  // What the kept tokens weigh together.
  MassRange KeptMass();
  double ExactKeptMass();

  Tally TallyFrom(const KeyView& view, float threshold);
  Tally CountFrom(const KeyView& view, float threshold) const;
  std::span<const Candidate> GatherSorted(const KeyView& view, float low, float high);
  Bracket BracketCount(std::int32_t count);
  Boundary FindByCount(std::int32_t count);
  // Whether a mass is at least `share` of what the kept tokens weigh together.
  bool ReachesShare(double mass, double share);
  Bracket BracketMass(const KeyView& view, double share);
  Boundary FindByMass(const KeyView& view, double share);
  void Restrict(const Boundary& boundary);
  void WeighBestBlocks();
  double AccumulateBounds();

  const VocabularyKernels& kernels_;
  std::span<float> logits_;
  float temperature_ = 1.0f;
  BlockedRow row_;
  WeightScale scale_;
  Boundary boundary_;

  std::array<float, kBlockWidth> tail_{};
  std::vector<float> block_maxima_;
  std::vector<float> block_bounds_;
  bool bounds_ready_ = false;

  // Weights, computed where needed.
  std::unique_ptr<float[]> weights_;
  std::vector<float> block_sums_;
  std::vector<std::uint8_t> block_ready_;
  float weighed_down_to_ = 0.0f;
  MassRange kept_mass_;
  bool kept_mass_known_ = false;
  bool restricted_ = false;  // boundary_ cuts something off

  std::vector<double> cumulative_bounds_;
  std::unique_ptr<TokenId[]> gathered_;
  std::vector<Candidate> candidates_;
  std::vector<float> typical_keys_;
  std::vector<float> typical_maxima_;
};

}  // namespace skipjack
