#include "sampling/sequence_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "tests/unit/sampling/naive_distribution.h"
#include "tests/unit/sampling/test_rows.h"

namespace skipjack {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0.0f;
  params.max_tokens = 1000;
  return params;
}

class SequenceSamplerTest : public ::testing::Test {
 protected:
  // Leaves `logits` as the sampler changed them in changed_.
  Status Sample(const SequenceSampler& sampler, std::vector<float> logits, std::uint64_t position = 0) {
    changed_ = std::move(logits);
    return sampler.Sample(changed_, position, &scratch_, &chosen_);
  }

  TokenId Token(const SequenceSampler& sampler, const std::vector<float>& logits,
                std::uint64_t position = 0) {
    const Status status = Sample(sampler, logits, position);
    EXPECT_EQ(status, Status::Ok());
    return chosen_.token;
  }

  SamplerScratch scratch_{4096};
  SampledToken chosen_;
  std::vector<float> changed_;
};

TEST_F(SequenceSamplerTest, GreedyTakesTheBestAndTheLowestIdAmongEquals) {
  const SequenceSampler sampler(Greedy(), {}, {});
  EXPECT_EQ(Token(sampler, {1, 5, 3, 5}), 1);
  EXPECT_TRUE(std::isnan(chosen_.logprob));
  EXPECT_TRUE(chosen_.top.empty());
  EXPECT_EQ(Token(sampler, {-kInfinity, -3, -kInfinity}), 1);
}

TEST_F(SequenceSamplerTest, TopKOneIsGreedyAtAnyTemperature) {
  SamplingParams params;
  params.temperature = 50;
  params.top_k = 1;
  const SequenceSampler sampler(params, {}, {});
  for (std::uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(Token(sampler, {1, 2, 2, 0}, position), 1);
  }
}

TEST_F(SequenceSamplerTest, LogitBiasIsAdded) {
  SamplingParams params = Greedy();
  params.logit_bias = {{2, 100.0f}, {4000, 5.0f}};
  const SequenceSampler sampler(params, {}, {});
  EXPECT_EQ(Token(sampler, {30, 20, -60, 0}), 2);
  EXPECT_EQ(changed_, (std::vector<float>{30, 20, 40, 0}));
}

// By hand: repetition 2 on prompt {0, 3, 3} and output {1, 1}, presence 0.5 and frequency 0.25 on the output.
TEST_F(SequenceSamplerTest, PenaltiesByHand) {
  SamplingParams params = Greedy();
  params.repetition_penalty = 2.0f;
  params.presence_penalty = 0.5f;
  params.frequency_penalty = 0.25f;
  SequenceSampler sampler(params, std::vector<TokenId>{0, 3, 3, 3000}, {});
  EXPECT_EQ(Token(sampler, {8, 4, 3, -2}), 0);
  EXPECT_EQ(changed_,
            (std::vector<float>{4, 4, 3, -4}));  // once per distinct token; negative ones are multiplied
  sampler.Accept(1);
  sampler.Accept(1);
  EXPECT_EQ(Token(sampler, {8, 4, 3, -2}), 0);
  EXPECT_EQ(changed_, (std::vector<float>{4, 2 - 0.5f - 2 * 0.25f, 3, -4}));
  sampler.Accept(2);
  EXPECT_EQ(Token(sampler, {0, 4, 3, -2}), 1);
  EXPECT_EQ(changed_, (std::vector<float>{0, 1, 1.5f - 0.75f, -4}));
}

TEST_F(SequenceSamplerTest, PresenceAndFrequencyIgnoreThePrompt) {
  SamplingParams params = Greedy();
  params.presence_penalty = 2.0f;
  params.frequency_penalty = 2.0f;
  SequenceSampler sampler(params, std::vector<TokenId>{0, 0, 0}, {});
  EXPECT_EQ(Token(sampler, {5, 4, 3}), 0);
  sampler.Accept(0);
  EXPECT_EQ(Token(sampler, {5, 4, 3}), 1);
}

// Counts that grow step by step must equal those rebuilt from the whole history.
TEST_F(SequenceSamplerTest, IncrementalPenaltiesEqualThoseOfTheWholeHistory) {
  std::mt19937 random(17);
  SamplingParams params = Greedy();
  params.max_tokens = 10000;
  params.repetition_penalty = 1.3f;
  params.presence_penalty = -0.4f;
  params.frequency_penalty = 0.7f;
  std::vector<TokenId> prompt(200);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % 500);
  SequenceSampler sampler(params, prompt, {});
  std::map<TokenId, int> generated;
  for (int step = 0; step < 300; ++step) {
    const std::vector<float> logits = testing::NormalRow(500, 3.0f, static_cast<unsigned>(step));
    std::vector<float> expected = logits;
    for (TokenId t = 0; t < 500; ++t) {
      float& logit = expected[static_cast<std::size_t>(t)];
      const bool in_prompt = std::find(prompt.begin(), prompt.end(), t) != prompt.end();
      const int times = generated.contains(t) ? generated[t] : 0;
      if (in_prompt || times > 0) logit = logit > 0 ? logit / 1.3f : logit * 1.3f;
      if (times > 0) logit -= -0.4f + 0.7f * static_cast<float>(times);
    }
    const TokenId token = Token(sampler, logits);
    ASSERT_EQ(changed_, expected);
    ASSERT_EQ(token, std::max_element(expected.begin(), expected.end()) - expected.begin());
    const auto next = static_cast<TokenId>(random() % 500);
    sampler.Accept(next);
    ++generated[next];
  }
}

TEST_F(SequenceSamplerTest, PenaltiesNeverOverflow) {
  SamplingParams params = Greedy();
  params.repetition_penalty = 1e-30f;
  params.logit_bias = {{1, 100.0f}};
  const SequenceSampler sampler(params, std::vector<TokenId>{0, 1, 2}, {});
  EXPECT_EQ(Token(sampler, {1e30f, std::numeric_limits<float>::max(), -kInfinity, 4}), 0);
  EXPECT_EQ(changed_[2], -kInfinity);
}

TEST_F(SequenceSamplerTest, EndAndStopTokensWaitForMinTokens) {
  SamplingParams params = Greedy();
  params.min_tokens = 2;
  params.stop_token_ids = {3};
  SequenceSampler sampler(params, {}, {1});
  const std::vector<float> logits = {1, 9, 2, 8};
  EXPECT_EQ(Token(sampler, logits), 2);
  sampler.Accept(2);
  EXPECT_EQ(Token(sampler, logits), 2);
  sampler.Accept(2);
  EXPECT_EQ(Token(sampler, logits), 1);
  EXPECT_TRUE(sampler.EndsText(1));
  EXPECT_TRUE(sampler.EndsText(3));
  EXPECT_FALSE(sampler.EndsText(2));
}

TEST_F(SequenceSamplerTest, IgnoreEosMakesEndTokensOrdinary) {
  SamplingParams params = Greedy();
  params.min_tokens = 2;
  params.ignore_eos = true;
  params.stop_token_ids = {0};
  const SequenceSampler sampler(params, {}, {1});
  EXPECT_EQ(Token(sampler, {20, 9, 2}), 1);
  EXPECT_FALSE(sampler.EndsText(1));
  EXPECT_TRUE(sampler.EndsText(0));
}

TEST_F(SequenceSamplerTest, NonFiniteLogitsAreNamed) {
  SamplingParams params = Greedy();
  params.min_tokens = 1;
  const SequenceSampler sampler(params, {}, {0});
  const float nan = std::nanf("");
  // Also where the request's own mask would hide it.
  const std::vector<std::vector<float>> rows = {
      {nan, 1, 2}, {1, nan, 2}, {1, 2, kInfinity}, {-kInfinity, -kInfinity, -kInfinity}};
  for (const auto& logits : rows) {
    const Status status = Sample(sampler, logits);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_NE(status.message().find("non-finite logits"), std::string::npos);
  }
}

TEST_F(SequenceSamplerTest, ARequestThatForbidsEverythingFailsByName) {
  SamplingParams params = Greedy();
  params.min_tokens = 1;
  params.stop_token_ids = {0, 1, 2};
  const SequenceSampler sampler(params, {}, {});
  EXPECT_EQ(Sample(sampler, {1, 2, 3}).code(), StatusCode::kFailedPrecondition);
}

// By hand: probabilities 1/2, 1/4, 1/4.
TEST_F(SequenceSamplerTest, LogprobsByHand) {
  SamplingParams params = Greedy();
  params.top_logprobs = 2;
  const SequenceSampler sampler(params, {}, {});
  const float ln2 = static_cast<float>(std::log(2.0));
  EXPECT_EQ(Token(sampler, {7, 7 + ln2, 7}), 1);
  EXPECT_NEAR(chosen_.logprob, -std::log(2.0), 1e-6);
  ASSERT_EQ(chosen_.top.size(), 2u);
  EXPECT_EQ(chosen_.top[0].token, 1);
  EXPECT_EQ(chosen_.top[0].logprob, chosen_.logprob);
  EXPECT_EQ(chosen_.top[1].token, 0);
  EXPECT_NEAR(chosen_.top[1].logprob, -std::log(4.0), 1e-6);
}

TEST_F(SequenceSamplerTest, LogprobsAreTheModelsOwn) {
  SamplingParams params;
  params.max_tokens = 1000;
  params.temperature = 3.0f;
  params.top_p = 0.5f;
  params.typical_p = 0.9f;
  params.top_logprobs = 5;
  params.repetition_penalty = 1.7f;
  params.logit_bias = {{10, 100.0f}};
  params.min_tokens = 3;
  SequenceSampler sampler(params, std::vector<TokenId>{10, 11}, {4});
  const std::vector<float> logits = testing::NormalRow(1000, 3.0f, 23);
  const std::vector<double> weights = testing::NaiveWeights(logits, 1.0);
  const double total = testing::Sum(weights);
  const std::vector<TokenId> order = testing::NaiveOrder<float>(logits);
  for (int step = 0; step < 4; ++step) {
    const TokenId token = Token(sampler, logits, static_cast<std::uint64_t>(step));
    EXPECT_EQ(token, 10);
    EXPECT_NEAR(chosen_.logprob, std::log(weights[10] / total), 1e-5);
    ASSERT_EQ(chosen_.top.size(), 5u);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(chosen_.top[i].token, order[i]);
      EXPECT_NEAR(chosen_.top[i].logprob, std::log(weights[static_cast<std::size_t>(order[i])] / total),
                  1e-5);
    }
    sampler.Accept(token);
  }
}

TEST_F(SequenceSamplerTest, LogprobsCountMoreThanTheVocabulary) {
  SamplingParams params = Greedy();
  params.top_logprobs = 20;
  const SequenceSampler sampler(params, {}, {});
  Token(sampler, {3, -kInfinity, 4});
  ASSERT_EQ(chosen_.top.size(), 2u);  // what is impossible is not listed
  EXPECT_EQ(chosen_.top[0].token, 2);
  EXPECT_EQ(chosen_.top[1].token, 0);
}

// The whole chain against the definitions: every drawn token belongs to the reference's set, and all of the
// likely ones come up.
TEST_F(SequenceSamplerTest, TheWholeChainStaysInsideTheReferencesSet) {
  SamplingParams params;
  params.max_tokens = 100000;
  params.temperature = 1.4f;
  params.top_k = 100;
  params.top_p = 0.8f;
  params.min_p = 0.02f;
  params.seed = 77;
  const SequenceSampler sampler(params, {}, {});
  const std::vector<float> logits = testing::NormalRow(4000, 2.0f, 29);
  std::vector<double> weights = testing::NaiveWeights(logits, static_cast<double>(1.4f));
  const std::vector<TokenId> order = testing::NaiveOrder<float>(logits);
  testing::KeepPrefix(order, 100, &weights);
  testing::KeepPrefix(order, testing::NaivePrefix(order, weights, static_cast<double>(0.8f)), &weights);
  for (double& w : weights) w = w < static_cast<double>(0.02f) ? 0.0 : w;
  std::map<TokenId, int> seen;
  for (std::uint64_t position = 0; position < 20000; ++position) ++seen[Token(sampler, logits, position)];
  std::size_t possible = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0.0) ++possible;
    EXPECT_EQ(weights[i] > 0.0, seen.contains(static_cast<TokenId>(i))) << i;
  }
  EXPECT_GT(possible, 10u);
}

TEST_F(SequenceSamplerTest, SeedsDifferAndRepeat) {
  const std::vector<float> logits = testing::NormalRow(2000, 1.0f, 31);
  const auto draw = [&](std::uint64_t seed) {
    SamplingParams params;
    params.seed = seed;
    const SequenceSampler sampler(params, {}, {});
    std::vector<TokenId> tokens;
    for (std::uint64_t position = 0; position < 20; ++position)
      tokens.push_back(Token(sampler, logits, position));
    return tokens;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

}  // namespace
}  // namespace skipjack
