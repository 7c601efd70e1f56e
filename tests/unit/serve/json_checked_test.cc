// The JSON reader: nothing invalid gets in, and nothing that costs more than its bytes.
#include "serve/json_checked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skipjack {
namespace {

using ::testing::HasSubstr;

std::string WhyRefused(std::string_view text, const JsonLimits& limits = {}) {
  const Result<Json> parsed = ParseJson(text, limits);
  return parsed.ok() ? "accepted" : parsed.status().message();
}

TEST(JsonChecked, BuildsWhatTheDocumentSays) {
  const char* text =
      R"({"a": [1, -2, 2.5, true, null, "x"], "b": {"c": {"d": []}}, "e": 18446744073709551615})";
  const Result<Json> parsed = ParseJson(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(*parsed, Json::parse(text));
}

TEST(JsonChecked, RefusesAKeyGivenTwice) {
  EXPECT_THAT(WhyRefused(R"({"n": 1, "m": 2, "n": 1})"), HasSubstr("\"n\" is given twice"));
  EXPECT_THAT(WhyRefused(R"({"o": {"x": 1, "x": 2}})"), HasSubstr("\"x\" is given twice"));
  EXPECT_EQ(WhyRefused(R"([{"x": 1}, {"x": 2}])"), "accepted");
}

// "{"0":0,"1":0,...," without an end.
std::string OpenObject(int members) {
  std::string text = "{";
  for (int i = 0; i < members; ++i) text += "\"" + std::to_string(i) + "\":0,";
  return text;
}

// With many keys the check goes another way; it must not become quadratic either.
TEST(JsonChecked, ManyKeysInOneObject) {
  constexpr int kKeys = 50'000;
  const JsonLimits roomy{.members = 2 * kKeys, .members_per_object = 2 * kKeys};
  const std::string many = OpenObject(kKeys);
  EXPECT_EQ(WhyRefused(many + "\"x\":0}", roomy), "accepted");
  EXPECT_THAT(WhyRefused(many + "\"3\":0}", roomy), HasSubstr("\"3\" is given twice"));
  EXPECT_THAT(WhyRefused(many + "\"49999\":0}", roomy), HasSubstr("\"49999\" is given twice"));
}

TEST(JsonChecked, BoundsTheMembersOfOneObject) {
  EXPECT_EQ(WhyRefused(OpenObject(2047) + "\"x\":0}"), "accepted");
  EXPECT_THAT(WhyRefused(OpenObject(2048) + "\"x\":0}"), HasSubstr("more than 2048 members"));
  // What follows is not looked at: here it would be the first error otherwise.
  const std::string behind = OpenObject(800'000) + "syntax error";
  EXPECT_THAT(WhyRefused(behind), HasSubstr("more than 2048 members"));
  EXPECT_THAT(WhyRefused("[[{\"a\":" + behind), HasSubstr("more than 2048 members"));
}

TEST(JsonChecked, BoundsTheMembersOfAllObjectsTogether) {
  std::string many = "[";
  for (int i = 0; i < 100; ++i) many += OpenObject(9) + "\"x\":0},";
  EXPECT_EQ(WhyRefused(many + "1]", {.members = 1000}), "accepted");
  EXPECT_THAT(WhyRefused(many + "{\"y\":0} syntax error", {.members = 1000}),
              HasSubstr("more than 1000 members altogether"));
}

TEST(JsonChecked, SeveralDocumentsMayShareTheLimits) {
  const JsonLimits limits{.containers = 5, .members = 4};
  JsonUse use{.containers = 2};
  EXPECT_TRUE(ParseJson(R"({"a": 1, "b": []})", limits, &use).ok());
  EXPECT_EQ(use.containers, 4u);
  EXPECT_EQ(use.members, 2u);
  EXPECT_TRUE(ParseJson(R"({"a": 1, "b": 2})", limits, &use).ok());
  EXPECT_THAT(ParseJson("[]", limits, &use).status().message(), HasSubstr("more than 5 objects and arrays"));
  use.containers = 0;
  EXPECT_THAT(ParseJson(R"({"a": 1})", limits, &use).status().message(), HasSubstr("more than 4 members"));
}

TEST(JsonChecked, BoundsDepthWithoutRecursion) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(WhyRefused(nested(64)), "accepted");
  EXPECT_THAT(WhyRefused(nested(65)), HasSubstr("deeper than 64"));
  EXPECT_THAT(WhyRefused(nested(1'000'000)), HasSubstr("deeper than 64"));
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += R"({"a":)";
  EXPECT_THAT(WhyRefused(objects), HasSubstr("deeper than 64"));
}

TEST(JsonChecked, BoundsTheNumberOfContainers) {
  std::string many = "[[]";
  for (int i = 0; i < 9; ++i) many += ",[]";
  many += "]";  // eleven arrays
  EXPECT_EQ(WhyRefused(many, {.containers = 11}), "accepted");
  EXPECT_THAT(WhyRefused(many, {.containers = 10}), HasSubstr("more than 10"));
}

TEST(JsonChecked, RefusesWhatIsNotJson) {
  for (const std::string_view text :
       {"", " ", "{", "[1,]", "{\"a\":}", "NaN", "[NaN]", "[Infinity]", "[-Infinity]", "'a'", "{a:1}",
        "[1] x", "[01]", "\"\\ud800\"", "\"\\udc00x\"", "nul", "\"a\nb\""}) {
    EXPECT_NE(WhyRefused(text), "accepted") << text;
  }
  EXPECT_THAT(WhyRefused("[1e999]"), HasSubstr("out of range"));
}

TEST(JsonChecked, RefusesInvalidUtf8) {
  for (const std::string_view bad :
       {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xf0\x9f\x98"}) {
    EXPECT_NE(WhyRefused("\"" + std::string(bad) + "\""), "accepted");
  }
  EXPECT_EQ(WhyRefused("\"\xf0\x9f\x98\x80\""), "accepted");
}

TEST(JsonChecked, ValuesAreDescribedShortly) {
  EXPECT_EQ(DescribeJson(Json::parse("[1]")), "an array");
  EXPECT_EQ(DescribeJson(Json::parse("{}")), "an object");
  EXPECT_EQ(DescribeJson(Json::parse("1.5")), "1.5");
  EXPECT_EQ(DescribeJson("abc"), "\"abc\"");
  // Cut between characters: the fortieth byte is inside one.
  EXPECT_EQ(DescribeJson(std::string(39, 'x') + "\xc3\xa9" + "y"), "\"" + std::string(39, 'x') + "\"...");
}

}  // namespace
}  // namespace skipjack
