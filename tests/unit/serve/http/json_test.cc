// The JSON writer: nothing invalid gets out.
#include <cmath>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/http/json_writer.h"
#include "text/utf8.h"

namespace skipjack::http {
namespace {

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
      std::string repaired;
      AppendLossyUtf8(bytes, repaired);
      EXPECT_EQ(parsed.get<std::string>(), repaired);
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

}  // namespace
}  // namespace skipjack::http
