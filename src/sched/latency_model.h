// What a step takes, learnt from the steps that ran.
//
//   step = a + b n + c context + d x + e pairs
//
// with n decoders that attend `context` positions together, and x prompt tokens that attend `pairs`. Alone, a
// prompt of x tokens takes a + d x + e x^2 / 2, and n decoders take a + b n + c context. The coefficients are
// the least-squares fit over recent steps, none below zero: normal equations whose old terms fade, solved
// anew every few steps with a weak pull towards the coefficients before. What the recent steps say nothing
// about (prompts, while everybody decodes) therefore stays as it was.
//
// Not thread-safe: the scheduler's owner owns it, policies read it between steps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/block_copy.h"
#include "base/clock.h"

namespace skipjack {

// What a step computes, as far as its duration depends on it.
struct StepLoad {
  double decoders = 0;
  double context = 0;        // positions that the decoders attend, together
  double prompt_tokens = 0;  // of all chunks
  double prompt_pairs = 0;   // (prompt token, attended position) pairs
};

// Seconds. All zero: nothing is known.
struct LatencyCoefficients {
  double step = 0;
  double decoder = 0;
  double context = 0;
  double prompt_token = 0;
  double prompt_pair = 0;

  friend bool operator==(const LatencyCoefficients&, const LatencyCoefficients&) = default;
};

class LatencyModel {
 public:
  // The iteration time that is assumed before the first fit.
  static constexpr Duration kAssumedIteration = std::chrono::milliseconds(10);

  LatencyModel() = default;
  // Starts from what an earlier run learnt.
  explicit LatencyModel(const LatencyCoefficients& learnt);

  // A step ended. Ignores durations that are not positive, and steps that only copied KV. Allocates nothing.
  void Observe(const StepLoad& load, Duration duration);

  bool fitted() const { return fitted_; }
  const LatencyCoefficients& coefficients() const { return coefficients_; }

  // All of these are 0 before the first fit.
  double StepSeconds(const StepLoad& load) const;
  // To compute `tokens` tokens in one piece, nobody else being there. `position` tokens precede them.
  double PrefillSeconds(std::int32_t tokens, std::int32_t position = 0) const;
  // What a chunk adds to a step.
  double ChunkSeconds(std::int32_t tokens, std::int32_t position) const;
  // The longest chunk from `position` on that adds at most `seconds`, at most `limit`.
  std::int32_t ChunkWithin(double seconds, std::int32_t position, std::int32_t limit) const;

  // `blocks` copies of KV blocks with that tier at one end took so long.
  void ObserveCopies(Tier tier, std::int32_t blocks, double seconds);
  // What one takes; an assumption before the first was seen.
  double copy_seconds(Tier tier) const { return copies_[static_cast<std::size_t>(tier)].seconds; }

  // The minimum iteration time, one decoder without context, from which multi-level queues take their first
  // quantum. Moves only when the fit has left it by a quarter, so that levels keep their meaning.
  Duration iteration() const { return iteration_; }

 private:
  static constexpr std::size_t kTerms = 5;
  using Vector = std::array<double, kTerms>;

  void Fit();

  std::array<Vector, kTerms> products_{};  // sums of x x^T, scaled
  Vector targets_{};                       // sums of x y
  LatencyCoefficients coefficients_;
  Duration iteration_ = kAssumedIteration;
  struct Copies {
    double seconds = 0;  // per block
    bool seen = false;
  };
  std::array<Copies, 3> copies_{{{}, {100e-6}, {1e-3}}};  // by tier
  std::uint64_t observed_ = 0;
  std::uint64_t next_fit_ = 8;
  bool fitted_ = false;
};

}  // namespace skipjack
