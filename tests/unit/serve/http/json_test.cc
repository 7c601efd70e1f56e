// The JSON reader, the JSON writer and UTF-8: nothing invalid gets in, nothing invalid gets out.
#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/http/json_checked.h"
#include "serve/http/json_writer.h"
#include "serve/http/utf8.h"

namespace skipjack::http {
namespace {

using testing::HasSubstr;

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

// With many keys the check goes another way; it must not become quadratic either.
TEST(JsonChecked, ManyKeysInOneObject) {
  constexpr int kKeys = 50'000;
  std::string many = "{";
  for (int i = 0; i < kKeys; ++i) many += "\"" + std::to_string(i) + "\":0,";
  EXPECT_EQ(WhyRefused(many + "\"x\":0}"), "accepted");
  EXPECT_THAT(WhyRefused(many + "\"3\":0}"), HasSubstr("\"3\" is given twice"));
  EXPECT_THAT(WhyRefused(many + "\"49999\":0}"), HasSubstr("\"49999\" is given twice"));
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
  EXPECT_EQ(WhyRefused(many, {.depth = 64, .containers = 11}), "accepted");
  EXPECT_THAT(WhyRefused(many, {.depth = 64, .containers = 10}), HasSubstr("more than 10"));
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

TEST(JsonWriter, PlacesCommas) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Field("a", 1).Key("b").BeginArray().Int(1).Int(2).BeginObject().EndObject().EndArray();
  json.Field("c", "x").Field("d", true).Key("e").Null().EndObject();
  EXPECT_EQ(out, R"({"a":1,"b":[1,2,{}],"c":"x","d":true,"e":null})");
}

TEST(JsonWriter, EveryByteStringBecomesValidJson) {
  for (int first = 0; first < 256; ++first) {
    for (const std::string_view rest : {"", "a", "\x80", "\xbf\xbf", "\x9f\x98\x80", "\"", "\\"}) {
      const std::string bytes = std::string(1, static_cast<char>(first)) + std::string(rest);
      std::string out;
      JsonWriter(&out).String(bytes);
      const nlohmann::json parsed = nlohmann::json::parse(out, nullptr, false);  // checks UTF-8 as well
      ASSERT_TRUE(parsed.is_string()) << first;
      EXPECT_EQ(parsed.get<std::string>(), ToValidUtf8(bytes));
    }
  }
}

TEST(JsonWriter, NumbersReadBackExactly) {
  for (const double value : {0.0, -0.5, 1e-300, 1e300, 0.1, 123456789.123456789}) {
    std::string out;
    JsonWriter(&out).Double(value);
    EXPECT_EQ(nlohmann::json::parse(out).get<double>(), value);
  }
  std::string out;
  JsonWriter(&out).Float(-0.1f);
  EXPECT_EQ(out, "-0.1");
}

TEST(JsonWriter, WhatIsNotFiniteBecomesNull) {
  std::string out;
  JsonWriter json(&out);
  json.BeginArray()
      .Double(std::nan(""))
      .Float(std::numeric_limits<float>::infinity())
      .Double(-HUGE_VAL)
      .EndArray();
  EXPECT_EQ(out, "[null,null,null]");
}

// Unicode Standard, section 3.9, table 3-8: the maximal bad parts of a known byte string.
TEST(Utf8, ReplacesEachMaximalBadPartOnce) {
  EXPECT_EQ(ToValidUtf8("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
            "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
            "b\xef\xbf\xbd"
            "c\xef\xbf\xbd\xef\xbf\xbd"
            "d");
  EXPECT_EQ(CountCharacters("a\xc3\xa9\xf0\x9f\x98\x80"), 3u);
  EXPECT_TRUE(IsValidUtf8("\xf4\x8f\xbf\xbf"));
  EXPECT_FALSE(IsValidUtf8("\xf4\x90\x80\x80"));
}

}  // namespace
}  // namespace skipjack::http
