#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "sampling/sampling_params.h"

namespace skipjack {
namespace {

constexpr std::int32_t kRows = 100;

std::string Refusal(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  const Status status = ValidateSampling(params, kRows);
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  return status.message();
}

TEST(ValidateSamplingTest, AcceptsDefaultsAndTheEndsOfEveryRange) {
  EXPECT_TRUE(ValidateSampling({}, kRows).ok());
  SamplingParams params;
  params.temperature = 0;
  params.top_k = -1;
  params.top_p = 1e-9f;
  params.min_p = 1;
  params.typical_p = 1;
  params.repetition_penalty = 10;
  params.presence_penalty = -2;
  params.frequency_penalty = 2;
  params.logit_bias = {{0, -100.0f}, {kRows - 1, 100.0f}};
  params.stop_token_ids = {0, kRows - 1};
  params.max_tokens = 1;
  params.min_tokens = 1;
  params.top_logprobs = 20;
  EXPECT_EQ(ValidateSampling(params, kRows), Status::Ok());
}

TEST(ValidateSamplingTest, NamesFieldRangeAndValue) {
  EXPECT_EQ(Refusal([](auto& p) { p.temperature = -0.5f; }), "temperature must lie in [0, 100], got -0.5");
  EXPECT_EQ(Refusal([](auto& p) { p.temperature = 101; }), "temperature must lie in [0, 100], got 101");
  EXPECT_EQ(Refusal([](auto& p) { p.top_p = 0; }), "top_p must lie in (0, 1], got 0");
  EXPECT_EQ(Refusal([](auto& p) { p.top_p = 3; }), "top_p must lie in (0, 1], got 3");
  EXPECT_EQ(Refusal([](auto& p) { p.min_p = 1.5f; }), "min_p must lie in [0, 1], got 1.5");
  EXPECT_EQ(Refusal([](auto& p) { p.typical_p = 0; }), "typical_p must lie in (0, 1], got 0");
  EXPECT_EQ(Refusal([](auto& p) { p.repetition_penalty = 0; }),
            "repetition_penalty must lie in (0, 10], got 0");
  EXPECT_EQ(Refusal([](auto& p) { p.presence_penalty = 2.5f; }),
            "presence_penalty must lie in [-2, 2], got 2.5");
  EXPECT_EQ(Refusal([](auto& p) { p.frequency_penalty = -3; }),
            "frequency_penalty must lie in [-2, 2], got -3");
  EXPECT_EQ(Refusal([](auto& p) { p.top_k = -2; }), "top_k must be at least 1, or 0 or -1 for none, got -2");
  EXPECT_EQ(Refusal([](auto& p) { p.max_tokens = 0; }), "max_tokens must be at least 1, got 0");
  EXPECT_EQ(Refusal([](auto& p) { p.min_tokens = 17; }),
            "min_tokens must lie in [0, max_tokens = 16], got 17");
  EXPECT_EQ(Refusal([](auto& p) { p.top_logprobs = 21; }), "top_logprobs must lie in [0, 20], got 21");
  EXPECT_EQ(Refusal([](auto& p) {
              p.logit_bias = {{kRows, 1.0f}};
            }),
            "logit_bias token id must lie in [0, 100), got 100");
  EXPECT_EQ(Refusal([](auto& p) {
              p.logit_bias = {{5, 100.5f}};
            }),
            "logit_bias must lie in [-100, 100], got 100.5");
  EXPECT_EQ(Refusal([](auto& p) { p.stop_token_ids = {-1}; }), "stop_token_ids must lie in [0, 100), got -1");
  EXPECT_EQ(Refusal([](auto& p) { p.logit_bias.resize(1025); }),
            "logit_bias may have at most 1024 entries, got 1025");
  EXPECT_EQ(Refusal([](auto& p) { p.stop_token_ids.resize(2000); }),
            "stop_token_ids may have at most 1024 entries, got 2000");
}

TEST(ValidateSamplingTest, RefusesWhatIsNotANumber) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, infinity, -infinity}) {
    EXPECT_NE(Refusal([&](auto& p) { p.temperature = bad; }), "accepted");
    EXPECT_NE(Refusal([&](auto& p) { p.top_p = bad; }), "accepted");
    EXPECT_NE(Refusal([&](auto& p) { p.min_p = bad; }), "accepted");
    EXPECT_NE(Refusal([&](auto& p) { p.typical_p = bad; }), "accepted");
    EXPECT_NE(Refusal([&](auto& p) { p.repetition_penalty = bad; }), "accepted");
    EXPECT_NE(Refusal([&](auto& p) { p.presence_penalty = bad; }), "accepted");
    EXPECT_NE(Refusal([&](auto& p) { p.frequency_penalty = bad; }), "accepted");
    EXPECT_NE(Refusal([&](auto& p) { p.logit_bias = {{1, bad}}; }), "accepted");
  }
}

}  // namespace
}  // namespace skipjack
