// How the next token is chosen. Ranges are checked once, at the edge, by ValidateSampling().
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"

namespace skipjack {

struct SamplingParams {
  float temperature = 1.0f;                           // [0, 100]; 0 = greedy
  std::int32_t top_k = 0;                             // 0 or -1 = off
  float top_p = 1.0f;                                 // (0, 1]
  float min_p = 0.0f;                                 // [0, 1]
  float typical_p = 1.0f;                             // (0, 1]
  float repetition_penalty = 1.0f;                    // (0, 10]; prompt and output, once per distinct token
  float presence_penalty = 0.0f;                      // [-2, 2]; output only
  float frequency_penalty = 0.0f;                     // [-2, 2]; output only
  std::vector<std::pair<TokenId, float>> logit_bias;  // each in [-100, 100]
  std::uint64_t seed = 0;  // resolved at the edge; the random number for a position is f(seed, position)

  std::int32_t max_tokens = 16;  // >= 1
  std::int32_t min_tokens = 0;   // end-of-generation and stop ids are masked before this many
  bool ignore_eos = false;
  std::int32_t end_after_tokens = 0;  // ends the output as the model would, for load tests; 0: never
  std::vector<TokenId> stop_token_ids;
  std::int32_t top_logprobs =
      -1;  // -1: no logprobs; 0: of the chosen token; n: also of the n best (limit 20)
};

// Checks every range; the message names the field and the allowed range. `sampled_ids` bounds token ids: what
// is never chosen cannot be favoured, avoided or stopped at.
Status ValidateSampling(const SamplingParams& params, std::int32_t sampled_ids);

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0.0f;  // natural logarithm, over the model's distribution before temperature and filters

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

// One chosen token.
struct SampledToken {
  TokenId token = 0;
  float logprob = std::numeric_limits<float>::quiet_NaN();  // NaN unless asked for
  std::vector<TokenLogprob> top;
};

}  // namespace skipjack
