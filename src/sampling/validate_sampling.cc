#include <cmath>
#include <string>
#include <string_view>

#include "sampling/sampling_params.h"

namespace skipjack {
namespace {

constexpr std::size_t kMaxLogitBias = 1024;
constexpr std::size_t kMaxStopIds = 1024;
constexpr std::int32_t kMaxTopLogprobs = 20;

std::string Number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

struct Range {
  double low;
  double high;
  bool low_open = false;

  bool Holds(double value) const { return value <= high && (low_open ? value > low : value >= low); }
  std::string ToString() const {
    return std::string(low_open ? "(" : "[") + Number(low) + ", " + Number(high) + "]";
  }
};

// NaN lies in no range.
Status CheckRange(std::string_view field, double value, const Range& range) {
  if (range.Holds(value)) return Status::Ok();
  return Status::InvalidArgument(std::string(field) + " must lie in " + range.ToString() + ", got " +
                                 Number(value));
}

Status CheckToken(std::string_view field, TokenId token, std::int32_t sampled_ids) {
  if (token >= 0 && token < sampled_ids) return Status::Ok();
  return Status::InvalidArgument(std::string(field) + " must lie in [0, " + std::to_string(sampled_ids) +
                                 "), got " + std::to_string(token));
}

Status CheckSize(std::string_view field, std::size_t size, std::size_t limit) {
  if (size <= limit) return Status::Ok();
  return Status::InvalidArgument(std::string(field) + " may have at most " + std::to_string(limit) +
                                 " entries, got " + std::to_string(size));
}

Status CheckNumbers(const SamplingParams& params) {
  struct Check {
    std::string_view field;
    double value;
    Range range;
  };
  const Check checks[] = {
      {"temperature", params.temperature, {0, 100}},
      {"top_p", params.top_p, {0, 1, true}},
      {"min_p", params.min_p, {0, 1}},
      {"typical_p", params.typical_p, {0, 1, true}},
      {"repetition_penalty", params.repetition_penalty, {0, 10, true}},
      {"presence_penalty", params.presence_penalty, {-2, 2}},
      {"frequency_penalty", params.frequency_penalty, {-2, 2}},
  };
  for (const Check& check : checks) {
    if (Status status = CheckRange(check.field, check.value, check.range); !status.ok()) return status;
  }
  return Status::Ok();
}

Status CheckCounts(const SamplingParams& params) {
  if (params.top_k < -1) {
    return Status::InvalidArgument("top_k must be at least 1, or 0 or -1 for none, got " +
                                   std::to_string(params.top_k));
  }
  if (params.max_tokens < 1) {
    return Status::InvalidArgument("max_tokens must be at least 1, got " + std::to_string(params.max_tokens));
  }
  if (params.min_tokens < 0 || params.min_tokens > params.max_tokens) {
    return Status::InvalidArgument(
        "min_tokens must lie in [0, max_tokens = " + std::to_string(params.max_tokens) + "], got " +
        std::to_string(params.min_tokens));
  }
  if (params.top_logprobs < -1 || params.top_logprobs > kMaxTopLogprobs) {
    return Status::InvalidArgument("top_logprobs must lie in [0, " + std::to_string(kMaxTopLogprobs) +
                                   "], got " + std::to_string(params.top_logprobs));
  }
  return Status::Ok();
}

Status CheckTokens(const SamplingParams& params, std::int32_t sampled_ids) {
  if (Status s = CheckSize("logit_bias", params.logit_bias.size(), kMaxLogitBias); !s.ok()) return s;
  if (Status s = CheckSize("stop_token_ids", params.stop_token_ids.size(), kMaxStopIds); !s.ok()) return s;
  for (const auto& [token, bias] : params.logit_bias) {
    if (Status s = CheckToken("logit_bias token id", token, sampled_ids); !s.ok()) return s;
    if (Status s = CheckRange("logit_bias", bias, {-100, 100}); !s.ok()) return s;
  }
  for (const TokenId token : params.stop_token_ids) {
    if (Status s = CheckToken("stop_token_ids", token, sampled_ids); !s.ok()) return s;
  }
  return Status::Ok();
}

}  // namespace

Status ValidateSampling(const SamplingParams& params, std::int32_t sampled_ids) {
  if (Status status = CheckNumbers(params); !status.ok()) return status;
  if (Status status = CheckCounts(params); !status.ok()) return status;
  return CheckTokens(params, sampled_ids);
}

}  // namespace skipjack
