// Chooses one sequence's tokens. What it chooses depends on the logits, the sequence's own parameters and
// history, the seed and the position alone.
//
// Order of what happens to a row of logits:
//   1. logprobs, where asked for, of the row as the model gave it;
//   2. logit_bias is added;
//   3. repetition_penalty, once per distinct token of prompt and output: a positive logit is divided by it,
//   any other
//      multiplied (Keskar et al., "CTRL"); then presence_penalty once and frequency_penalty per occurrence,
//      for tokens of the output alone, are subtracted (as OpenAI's API defines them);
//   4. end and stop tokens become impossible until min_tokens have been generated;
//   5. with temperature 0 the best token is taken; otherwise temperature, top_k, typical_p, top_p, min_p, in
//   this
//      order, each on the distribution the ones before it left, and a draw.
// Of equal logits the lowest id is always the better one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "sampling/row_distribution.h"
#include "sampling/sampling_params.h"
#include "sampling/token_counts.h"

namespace skipjack {

// One thread's working memory, reused from row to row.
struct SamplerScratch {
  explicit SamplerScratch(std::int32_t vocabulary) : row(vocabulary) {}

  RowDistribution row;
  std::vector<TokenLogprob> originals;  // logits as they were before the request's changes
};

class SequenceSampler {
 public:
  // `params` are validated. `end_tokens`: the model's end-of-generation ids, no matter with ignore_eos. Ids
  // of the prompt need not lie within the rows that are sampled.
  SequenceSampler(const SamplingParams& params, std::span<const TokenId> prompt,
                  std::vector<TokenId> end_tokens);

  // Chooses the token at `position` (counted from the prompt's start) from `logits`, which it may overwrite.
  // `scratch` is the calling thread's, for at least as many logits. `chosen` keeps its capacity from token to
  // token. Fails with Internal for a NaN or +inf, or when the model gave -inf for everything; with
  // FailedPrecondition when the request's own masks and biases leave nothing. Nothing is remembered until
  // Accept().
  Status Sample(std::span<float> logits, std::uint64_t position, SamplerScratch* scratch,
                SampledToken* chosen) const;

  // The token is part of the output now.
  void Accept(TokenId token);

  // Ends the sequence where it is generated: an end token, or one of stop_token_ids.
  bool EndsText(TokenId token) const;

  const SamplingParams& params() const { return params_; }
  std::int32_t generated() const { return generated_; }

 private:
  bool wants_logprobs() const { return params_.top_logprobs >= 0; }
  bool changes_logits() const { return penalised_ || !params_.logit_bias.empty() || masks_endings(); }
  bool masks_endings() const { return generated_ < params_.min_tokens && !endings_.empty(); }
  void ApplyBias(std::span<float> logits) const;
  void ApplyPenalties(std::span<float> logits) const;
  void MaskEndings(std::span<float> logits) const;
  void KeepOriginals(std::span<const float> logits, std::vector<TokenLogprob>* originals) const;
  TokenId Choose(std::uint64_t position, RowDistribution* row) const;

  SamplingParams params_;
  std::vector<TokenId> endings_;  // end and stop tokens, sorted
  bool penalised_ = false;
  TokenCounts counts_;  // empty unless penalised_
  std::int32_t generated_ = 0;
};

}  // namespace skipjack
