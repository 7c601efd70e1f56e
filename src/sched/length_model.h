// How long answers get, learnt from the answers that ended, and what that says about those under way.
//
// One histogram of output lengths per class of requests: a tenant, a power of two of max_tokens and one of
// the prompt's length. Buckets are one token wide up to 16 tokens and an eighth of an octave from there. Old
// answers fade. A class with few answers of its own leans on its parents: the histogram is
//
//   own counts + kLean x distribution(tenant, max_tokens)
//                      own counts + kLean x distribution(max_tokens)
//                                         own counts + kLean x distribution(all)
//                                                            own counts + a Pareto tail of weight 1
//
// The tail P(L > a) ~ 1/a has the hazard 1/a, for which the Gittins index orders by attained service: where
// nothing was seen, the order is that of a multi-level feedback queue.
//
// Gittins: of all sequences, run the one with the largest max_D P(L - a <= D | L > a) / E[min(L - a, D) | L >
// a] for its age a; this minimises the mean completion time when only the distribution is known (Gittins
// 1979). Rank() is the inverse, in tokens: the least expected work per completion.
//
// Not thread-safe: the scheduler's owner owns it, policies read it between steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace skipjack {

class LengthModel {
 public:
  using ClassId = std::int32_t;
  static constexpr ClassId kAll = 0;

  // Answers to have seen before anything is concluded from them.
  static constexpr double kEnough = 32;
  // Classes beyond so many are their parents, so that inventing tenants costs no memory.
  static constexpr std::size_t kMaxClasses = 4096;

  LengthModel();

  // The class of a request; made, or brought up to date, when needed. Call once per request.
  ClassId Classify(std::string_view tenant, std::int32_t max_tokens, std::int32_t prompt_tokens);

  // An answer of this class ended after `tokens` tokens.
  void Observe(ClassId id, std::int32_t tokens);

  bool informed() const { return nodes_[kAll].own >= kEnough; }

  // For an answer with `generated` tokens that goes on.
  double Rank(ClassId id, std::int32_t generated) const;
  // The same, when `work` tokens' worth of work must be done before the next token (the prompt).
  double RankAfter(ClassId id, std::int32_t generated, double work) const;
  // P(L > generated + more | L > generated).
  double Survival(ClassId id, std::int32_t generated, std::int32_t more) const;
  // E[L | L > generated].
  double ExpectedLength(ClassId id, std::int32_t generated) const;

  std::size_t classes() const { return nodes_.size(); }

  // Bucket of a length of at least 1 token.
  static std::size_t BucketOf(std::int32_t tokens);
  static std::int32_t FirstOf(std::size_t bucket);  // its shortest length

 private:
  static constexpr std::size_t kBuckets = 160;  // up to 2^20 tokens and more
  using Histogram = std::array<float, kBuckets>;

  struct Node {
    ClassId parent = -1;
    double own = 0;          // answers seen, faded
    double increment = 1;    // the weight of the next one: growing weights stand for fading counts
    double built_from = -1;  // answers of all classes when the tables were built
    Histogram counts{};
    // Built from the counts and the parents.
    Histogram mass{};      // sums to 1
    Histogram after{};     // P(L in this bucket or later)
    Histogram rank{};      // by bucket, at the age just before it
    Histogram expected{};  // E[L | L in this bucket or later]
  };
  using Key = std::tuple<std::int32_t, std::int32_t, std::string>;  // max_tokens, prompt (-1: all), tenant

  ClassId Open(const Key& key, ClassId parent);
  void Build(Node* node);
  const Node& At(ClassId id) const { return nodes_[static_cast<std::size_t>(id)]; }

  std::deque<Node> nodes_;
  std::map<Key, ClassId> by_key_;
  double seen_ = 0;  // answers of all classes, never faded
};

}  // namespace skipjack
