// Checks everything a client may send by value and range. Messages name the field, what is allowed and what
// came.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "sampling/sampling_params.h"
#include "serve/inference_service.h"
#include "text/output_text.h"

namespace skipjack {

// docs/api.md states these.
inline constexpr std::size_t kMaxStopStrings = 32;
inline constexpr std::size_t kMaxStopBytes = 1024;
inline constexpr std::size_t kMaxStopTokens = 128;
inline constexpr std::size_t kMaxLogitBiases = 1024;
inline constexpr std::size_t kMaxRequestIdBytes = 128;
inline constexpr std::size_t kMaxTenantBytes = 128;
inline constexpr std::size_t kMaxCacheSaltBytes = 128;
inline constexpr std::int64_t kMaxTopLogprobs = 20;
inline constexpr std::int32_t kDefaultCompletionTokens = 16;

// A request id ends up in logs and headers: at most 128 printable ASCII characters without spaces.
Status CheckRequestId(const std::string& request_id);

// Fields that need no model: request id, tenant, cache salt, timeout.
Status CheckRequestFields(const CompletionRequest& request);

// Requests share cached prefixes when these are equal. Other pairs of tenant and cache salt never give the
// same.
std::string CacheSalt(const CompletionRequest& request);

struct CheckedParameters {
  SamplingParams sampling;  // without max_tokens; min_tokens is checked against it by ResolveMaxTokens()
  std::int32_t choices = 1;
  OutputText::Options output;
};

// The seed is drawn here where the request has none. Ids from `sampled_ids` on are never chosen, so nothing
// may be said about them.
Result<CheckedParameters> CheckParameters(const CompletionRequest& request, std::int32_t sampled_ids,
                                          std::int32_t max_n);

// Refuses an empty prompt and ids outside the vocabulary (naming the position).
Status CheckPromptIds(const std::vector<TokenId>& prompt, std::int32_t vocabulary_rows);

// How many tokens this prompt may be continued by: what was asked for, or the default, which gives way to the
// context. The prompt must leave room for one token; asking for more than fits is an error that names all
// numbers.
Result<std::int32_t> ResolveMaxTokens(const CompletionRequest& request, std::size_t prompt_tokens,
                                      std::int32_t context_length);

}  // namespace skipjack
