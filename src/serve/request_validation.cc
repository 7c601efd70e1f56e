#include "serve/request_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string_view>
#include <utility>

namespace skipjack {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

Status CheckRange(std::string_view field, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return Status::InvalidArgument(fmt::format("{} must lie in [{}, {}], got {}", field, low, high, value));
}

Status CheckCount(std::string_view field, std::size_t count, std::size_t most) {
  if (count <= most) return {};
  return Status::InvalidArgument(fmt::format("{} may have at most {} entries, got {}", field, most, count));
}

bool IsPrintableAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

Status CheckName(std::string_view field, std::string_view value, std::size_t most) {
  if (value.size() > most) {
    return Status::InvalidArgument(
        fmt::format("{} may have at most {} characters, got {}", field, most, value.size()));
  }
  if (!IsPrintableAscii(value)) {
    return Status::InvalidArgument(
        fmt::format("{} must consist of printable ASCII characters without spaces", field));
  }
  return {};
}

std::uint64_t RandomSeed() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

Status TakeStops(const CompletionRequest& request, std::int32_t sampled_ids, CheckedParameters* out) {
  if (Status s = CheckCount("stop", request.stop.size(), kMaxStopStrings); !s.ok()) return s;
  for (std::size_t i = 0; i < request.stop.size(); ++i) {
    const std::size_t size = request.stop[i].size();
    if (size >= 1 && size <= kMaxStopBytes) continue;
    return Status::InvalidArgument(
        fmt::format("stop[{}] must have 1 to {} bytes, got {}", i, kMaxStopBytes, size));
  }
  if (Status s = CheckCount("stop_token_ids", request.stop_token_ids.size(), kMaxStopTokens); !s.ok())
    return s;
  for (std::size_t i = 0; i < request.stop_token_ids.size(); ++i) {
    const std::int64_t id = request.stop_token_ids[i];
    if (Status s = CheckRange(fmt::format("stop_token_ids[{}]", i), id, 0, sampled_ids - 1); !s.ok())
      return s;
    out->sampling.stop_token_ids.push_back(static_cast<TokenId>(id));
  }
  out->output.stop_strings = request.stop;
  out->output.include_stop_string = request.include_stop_string;
  out->output.skip_special_tokens = request.skip_special_tokens;
  return {};
}

Status TakeLogitBias(const CompletionRequest& request, std::int32_t sampled_ids, SamplingParams* out) {
  if (Status s = CheckCount("logit_bias", request.logit_bias.size(), kMaxLogitBiases); !s.ok()) return s;
  for (const auto& [id, bias] : request.logit_bias) {
    if (Status s = CheckRange("a token id of logit_bias", id, 0, sampled_ids - 1); !s.ok()) return s;
    out->logit_bias.emplace_back(static_cast<TokenId>(id), static_cast<float>(bias));
  }
  return {};
}

// Checks an optional integer and stores it where it is there.
Status TakeInteger(std::string_view field, const std::optional<std::int64_t>& value, std::int64_t low,
                   std::int64_t high, std::int32_t* out) {
  if (!value) return {};
  if (Status s = CheckRange(field, *value, low, high); !s.ok()) return s;
  *out = static_cast<std::int32_t>(*value);
  return {};
}

// Ranges of these are ValidateSampling's.
void TakeNumbers(const CompletionRequest& request, SamplingParams* out) {
  const auto take = [](const std::optional<double>& value, float* to) {
    if (value) *to = static_cast<float>(*value);
  };
  take(request.temperature, &out->temperature);
  take(request.top_p, &out->top_p);
  take(request.min_p, &out->min_p);
  take(request.typical_p, &out->typical_p);
  take(request.repetition_penalty, &out->repetition_penalty);
  take(request.presence_penalty, &out->presence_penalty);
  take(request.frequency_penalty, &out->frequency_penalty);
}

}  // namespace

Status CheckRequestId(const std::string& request_id) {
  return CheckName("request_id", request_id, kMaxRequestIdBytes);
}

Status CheckRequestFields(const CompletionRequest& request) {
  if (Status s = CheckRequestId(request.request_id); !s.ok()) return s;
  if (Status s = CheckName("tenant", request.tenant, kMaxTenantBytes); !s.ok()) return s;
  if (request.cache_salt.size() > kMaxCacheSaltBytes) {
    return Status::InvalidArgument(fmt::format("cache_salt may have at most {} bytes, got {}",
                                               kMaxCacheSaltBytes, request.cache_salt.size()));
  }
  if (request.timeout && *request.timeout <= Duration::zero()) {
    return Status::InvalidArgument(
        fmt::format("timeout must be positive, got {} s", ToSeconds(*request.timeout)));
  }
  return {};
}

std::string CacheSalt(const CompletionRequest& request) {
  if (request.cache_salt.empty()) return request.tenant;
  // No tenant's name has a line break in it: CheckRequestFields().
  return request.tenant + "\n" + request.cache_salt;
}

Result<CheckedParameters> CheckParameters(const CompletionRequest& request, std::int32_t sampled_ids,
                                          std::int32_t max_n) {
  CheckedParameters checked;
  SamplingParams& sampling = checked.sampling;
  if (Status s = TakeInteger("n", request.n, 1, max_n, &checked.choices); !s.ok()) return s;
  if (Status s = TakeInteger("top_k", request.top_k, -1, kInt32Max, &sampling.top_k); !s.ok()) return s;
  if (Status s = TakeInteger("min_tokens", request.min_tokens, 0, kInt32Max, &sampling.min_tokens); !s.ok())
    return s;
  if (Status s = TakeInteger("max_tokens", request.max_tokens, 1, kInt32Max, &sampling.max_tokens); !s.ok())
    return s;
  if (Status s =
          TakeInteger("end_after_tokens", request.end_after_tokens, 1, kInt32Max, &sampling.end_after_tokens);
      !s.ok()) {
    return s;
  }
  if (Status s =
          TakeInteger("top_logprobs", request.top_logprobs, 0, kMaxTopLogprobs, &sampling.top_logprobs);
      !s.ok()) {
    return s;
  }
  if (Status s = TakeStops(request, sampled_ids, &checked); !s.ok()) return s;
  if (Status s = TakeLogitBias(request, sampled_ids, &sampling); !s.ok()) return s;
  TakeNumbers(request, &sampling);
  sampling.ignore_eos = request.ignore_eos;
  sampling.seed = request.seed ? static_cast<std::uint64_t>(*request.seed) : RandomSeed();
  if (Status s = ValidateSampling(sampling, sampled_ids); !s.ok()) return s;
  return checked;
}

Status CheckPromptIds(const std::vector<TokenId>& prompt, std::int32_t vocabulary_rows) {
  if (prompt.empty()) return Status::InvalidArgument("the prompt is empty: it must have at least one token");
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] >= 0 && prompt[i] < vocabulary_rows) continue;
    return Status::InvalidArgument(
        fmt::format("token {} of the prompt must lie in [0, {}], got {}", i, vocabulary_rows - 1, prompt[i]));
  }
  return {};
}

Result<std::int32_t> ResolveMaxTokens(const CompletionRequest& request, std::size_t prompt_tokens,
                                      std::int32_t context_length) {
  const std::int64_t prompt = static_cast<std::int64_t>(prompt_tokens);
  const std::int64_t room = context_length - prompt;
  if (room < 1) {
    return Status::InvalidArgument(fmt::format(
        "the prompt has {} tokens, and the context of {} must also hold the output: at most {} are "
        "possible",
        prompt, context_length, context_length - 1));
  }
  const bool chat = std::holds_alternative<ChatPrompt>(request.prompt);
  const std::int64_t fallback = chat ? room : std::min<std::int64_t>(room, kDefaultCompletionTokens);
  const std::int64_t tokens = request.max_tokens.value_or(fallback);
  if (tokens > room) {
    return Status::InvalidArgument(
        fmt::format("the prompt has {} tokens and max_tokens is {}: together more than the context of {}",
                    prompt, tokens, context_length));
  }
  if (request.min_tokens && *request.min_tokens > tokens) {
    return Status::InvalidArgument(
        fmt::format("min_tokens ({}) must not be greater than max_tokens ({})", *request.min_tokens, tokens));
  }
  return static_cast<std::int32_t>(tokens);
}

}  // namespace skipjack
