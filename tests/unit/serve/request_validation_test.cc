#include "serve/request_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace skipjack {
namespace {

using ::testing::HasSubstr;

constexpr std::int32_t kRows = 259;
constexpr std::int32_t kMaxN = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

Status Check(const std::function<void(CompletionRequest&)>& change) {
  CompletionRequest request;
  change(request);
  return CheckParameters(request, kRows, kMaxN).status();
}

// One value that must be refused, and what the message must say of it.
struct Refusal {
  std::string field;
  std::function<void(CompletionRequest&)> change;
  std::string must_say;
};

class RefusalTest : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, NamesFieldAndRange) {
  const Status status = Check(GetParam().change);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.ToString();
  EXPECT_THAT(status.message(), HasSubstr(GetParam().field));
  EXPECT_THAT(status.message(), HasSubstr(GetParam().must_say));
}

using R = CompletionRequest;

INSTANTIATE_TEST_SUITE_P(
    Integers, RefusalTest,
    ::testing::Values(Refusal{"n", [](R& r) { r.n = 0; }, "[1, 4], got 0"},
                      Refusal{"n", [](R& r) { r.n = 5; }, "[1, 4], got 5"},
                      Refusal{"n", [](R& r) { r.n = kHuge; }, "got 9223372036854775807"},
                      Refusal{"max_tokens", [](R& r) { r.max_tokens = 0; }, "got 0"},
                      Refusal{"max_tokens", [](R& r) { r.max_tokens = -1; }, "got -1"},
                      Refusal{"max_tokens", [](R& r) { r.max_tokens = kHuge; }, "got 9223372036854775807"},
                      Refusal{"min_tokens", [](R& r) { r.min_tokens = -1; }, "got -1"},
                      Refusal{"min_tokens", [](R& r) { r.min_tokens = 1ll << 40; }, "got 1099511627776"},
                      Refusal{"top_k", [](R& r) { r.top_k = -2; }, "[-1, 2147483647], got -2"},
                      Refusal{"top_k", [](R& r) { r.top_k = kHuge; }, "got 9223372036854775807"},
                      Refusal{"top_logprobs", [](R& r) { r.top_logprobs = -1; }, "[0, 20], got -1"},
                      Refusal{"top_logprobs", [](R& r) { r.top_logprobs = 21; }, "[0, 20], got 21"},
                      Refusal{"stop_token_ids[1]",
                              [](R& r) {
                                r.stop_token_ids = {3, kRows};
                              },
                              "[0, 258], got 259"},
                      Refusal{"stop_token_ids[0]", [](R& r) { r.stop_token_ids = {-1}; }, "[0, 258], got -1"},
                      Refusal{"stop_token_ids", [](R& r) { r.stop_token_ids.assign(129, 0); },
                              "at most 128 entries, got 129"},
                      Refusal{"logit_bias",
                              [](R& r) {
                                r.logit_bias = {{kRows, 1.0}};
                              },
                              "[0, 258], got 259"},
                      Refusal{"logit_bias",
                              [](R& r) {
                                r.logit_bias.assign(1025, {1, 1.0});
                              },
                              "at most 1024 entries, got 1025"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, RefusalTest,
    ::testing::Values(Refusal{"temperature", [](R& r) { r.temperature = -0.1; }, "100"},
                      Refusal{"temperature", [](R& r) { r.temperature = 1e308; }, "100"},
                      Refusal{"temperature", [](R& r) { r.temperature = kNan; }, "100"},
                      Refusal{"top_p", [](R& r) { r.top_p = 0; }, "1"},
                      Refusal{"top_p", [](R& r) { r.top_p = 1.5; }, "1"},
                      Refusal{"top_p", [](R& r) { r.top_p = kNan; }, "1"},
                      Refusal{"min_p", [](R& r) { r.min_p = -kInfinity; }, "1"},
                      Refusal{"typical_p", [](R& r) { r.typical_p = 0; }, "1"},
                      Refusal{"repetition_penalty", [](R& r) { r.repetition_penalty = 0; }, "10"},
                      Refusal{"presence_penalty", [](R& r) { r.presence_penalty = 2.5; }, "2"},
                      Refusal{"frequency_penalty", [](R& r) { r.frequency_penalty = -2.5; }, "2"},
                      Refusal{"logit_bias",
                              [](R& r) {
                                r.logit_bias = {{1, 101.0}};
                              },
                              "100"}));

INSTANTIATE_TEST_SUITE_P(
    Stops, RefusalTest,
    ::testing::Values(Refusal{"stop", [](R& r) { r.stop.assign(33, "x"); }, "at most 32 entries, got 33"},
                      Refusal{"stop[1]",
                              [](R& r) {
                                r.stop = {"x", ""};
                              },
                              "1 to 1024 bytes, got 0"},
                      Refusal{"stop[0]", [](R& r) { r.stop = {std::string(1025, 'x')}; }, "got 1025"}));

TEST(RequestValidationTest, TakesTheEdgesOfEveryRange) {
  CompletionRequest r;
  r.n = kMaxN;
  r.temperature = 100;
  r.top_k = -1;
  r.top_p = 1;
  r.min_p = 1;
  r.typical_p = 1;
  r.repetition_penalty = 10;
  r.presence_penalty = -2;
  r.frequency_penalty = 2;
  r.top_logprobs = 20;
  r.seed = -1;
  r.stop.assign(32, std::string(1024, 'x'));
  r.stop_token_ids.assign(128, kRows - 1);
  r.logit_bias = {{0, -100.0}, {kRows - 1, 100.0}};
  r.include_stop_string = true;
  r.skip_special_tokens = false;
  r.ignore_eos = true;
  const Result<CheckedParameters> checked = CheckParameters(r, kRows, kMaxN);
  ASSERT_TRUE(checked.ok()) << checked.status().ToString();
  EXPECT_EQ(checked->choices, kMaxN);
  const SamplingParams& s = checked->sampling;
  EXPECT_EQ(s.temperature, 100);
  EXPECT_EQ(s.top_k, -1);
  EXPECT_EQ(s.top_logprobs, 20);
  EXPECT_EQ(s.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(s.stop_token_ids.size(), 128u);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<TokenId, float>>{{0, -100.0f}, {kRows - 1, 100.0f}}));
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_EQ(checked->output.stop_strings, r.stop);
  EXPECT_TRUE(checked->output.include_stop_string);
  EXPECT_FALSE(checked->output.skip_special_tokens);
}

TEST(RequestValidationTest, DefaultsAreTheDocumentedOnes) {
  const Result<CheckedParameters> checked = CheckParameters({}, kRows, kMaxN);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked->choices, 1);
  EXPECT_EQ(checked->sampling.temperature, 1.0f);
  EXPECT_EQ(checked->sampling.top_p, 1.0f);
  EXPECT_EQ(checked->sampling.top_logprobs, -1);
  EXPECT_TRUE(checked->output.skip_special_tokens);
}

TEST(RequestValidationTest, AnAbsentSeedIsDrawn) {
  const auto first = CheckParameters({}, kRows, kMaxN);
  const auto second = CheckParameters({}, kRows, kMaxN);
  EXPECT_NE(first->sampling.seed, second->sampling.seed);
}

TEST(RequestValidationTest, NamesMustBeFitForLogsAndHeaders) {
  const auto check = [](std::string id, std::string tenant) {
    CompletionRequest request;
    request.request_id = std::move(id);
    request.tenant = std::move(tenant);
    return CheckRequestFields(request);
  };
  EXPECT_TRUE(check("", "").ok());
  EXPECT_TRUE(check(std::string(128, '~'), "acme!").ok());
  EXPECT_THAT(check(std::string(129, 'x'), "").message(), HasSubstr("at most 128 characters, got 129"));
  EXPECT_THAT(check("a\nb", "").message(), HasSubstr("request_id"));
  EXPECT_THAT(check("a b", "").message(), HasSubstr("request_id"));
  EXPECT_THAT(check("", "t\xc3\xa9l\xc3\xa9").message(), HasSubstr("tenant"));
}

TEST(RequestValidationTest, ATimeoutMustBePositive) {
  CompletionRequest request;
  request.timeout = Duration(1);
  EXPECT_TRUE(CheckRequestFields(request).ok());
  request.timeout = Duration(0);
  EXPECT_THAT(CheckRequestFields(request).message(), HasSubstr("timeout must be positive"));
  request.timeout = std::chrono::seconds(-3);
  EXPECT_THAT(CheckRequestFields(request).message(), HasSubstr("got -3 s"));
}

TEST(RequestValidationTest, TheCacheSaltIsBounded) {
  CompletionRequest request;
  request.cache_salt = std::string(128, '\x01');
  EXPECT_TRUE(CheckRequestFields(request).ok());
  request.cache_salt += "x";
  EXPECT_THAT(CheckRequestFields(request).message(),
              HasSubstr("cache_salt may have at most 128 bytes, got 129"));
}

TEST(RequestValidationTest, TenantAndCacheSaltAreNeverMistakenForOthers) {
  const auto salt = [](const std::string& tenant, const std::string& cache_salt) {
    CompletionRequest request;
    request.tenant = tenant;
    request.cache_salt = cache_salt;
    return CacheSalt(request);
  };
  EXPECT_EQ(salt("a", ""), "a");
  EXPECT_EQ(salt("", ""), "");
  EXPECT_EQ(salt("a", "b"), salt("a", "b"));
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"", ""}, {"a", ""}, {"", "a"}, {"ab", ""}, {"a", "b"}, {"", "ab"}, {"a", "\nb"}, {"", "a\nb"}};
  for (const auto& one : pairs) {
    for (const auto& other : pairs) {
      EXPECT_EQ(salt(one.first, one.second) == salt(other.first, other.second), one == other);
    }
  }
}

TEST(RequestValidationTest, PromptIdsLieInTheVocabulary) {
  EXPECT_TRUE(CheckPromptIds({0, kRows - 1}, kRows).ok());
  EXPECT_THAT(CheckPromptIds({}, kRows).message(), HasSubstr("empty"));
  EXPECT_THAT(CheckPromptIds({1, kRows}, kRows).message(),
              HasSubstr("token 1 of the prompt must lie in [0, 258], got 259"));
  EXPECT_THAT(CheckPromptIds({-1}, kRows).message(), HasSubstr("got -1"));
}

TEST(RequestValidationTest, MaxTokensFollowsTheContext) {
  CompletionRequest text;
  text.prompt = std::string("x");
  CompletionRequest chat;
  chat.prompt = ChatPrompt{};
  EXPECT_EQ(*ResolveMaxTokens(text, 10, 100), 16);
  EXPECT_EQ(*ResolveMaxTokens(text, 90, 100), 10);  // a default gives way
  EXPECT_EQ(*ResolveMaxTokens(text, 99, 100), 1);
  EXPECT_EQ(*ResolveMaxTokens(chat, 10, 100), 90);
  text.max_tokens = 90;
  EXPECT_EQ(*ResolveMaxTokens(text, 10, 100), 90);
}

TEST(RequestValidationTest, TooLongNamesAllNumbers) {
  CompletionRequest request;
  request.prompt = std::string("x");
  for (const std::size_t prompt : {100u, 101u, 5000u}) {
    const Status status = ResolveMaxTokens(request, prompt, 100).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("the prompt has " + std::to_string(prompt) + " tokens"));
    EXPECT_THAT(status.message(), HasSubstr("context of 100"));
  }
  request.max_tokens = 91;
  const Status status = ResolveMaxTokens(request, 10, 100).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("10 tokens and max_tokens is 91"));
  EXPECT_THAT(status.message(), HasSubstr("context of 100"));
}

TEST(RequestValidationTest, MinTokensMayNotExceedMaxTokens) {
  CompletionRequest request;
  request.prompt = std::string("x");
  request.min_tokens = 17;  // more than the default
  EXPECT_THAT(ResolveMaxTokens(request, 1, 100).status().message(), HasSubstr("min_tokens (17)"));
  request.max_tokens = 17;
  EXPECT_TRUE(ResolveMaxTokens(request, 1, 100).ok());
}

}  // namespace
}  // namespace skipjack
