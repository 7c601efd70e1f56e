#include "config/units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace skipjack {
namespace {

TEST(UnitsTest, Bytes) {
  EXPECT_EQ(ParseBytes("0"), 0);
  EXPECT_EQ(ParseBytes("1048576"), 1048576);
  EXPECT_EQ(ParseBytes("1KiB"), 1024);
  EXPECT_EQ(ParseBytes("512MiB"), 512ll << 20);
  EXPECT_EQ(ParseBytes("4GiB"), 4ll << 30);
  EXPECT_EQ(ParseBytes("4 GiB"), 4ll << 30);
  EXPECT_EQ(ParseBytes("2TiB"), 2ll << 40);
  EXPECT_EQ(ParseBytes("1.5KiB"), 1536);
  EXPECT_EQ(ParseBytes("0.1KiB"), 102);  // rounded down
  EXPECT_EQ(ParseBytes("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(ParseBytes("8388607TiB"), 8388607ll << 40);
}

TEST(UnitsTest, WhatIsNoSize) {
  for (const char* text : {"",
                           "GiB",
                           "-1",
                           "+1",
                           "4GB",
                           "4G",
                           "4gib",
                           "4 ",
                           "4  GiB",
                           "4GiB ",
                           " 4GiB",
                           "1.GiB",
                           ".5GiB",
                           "1.5",
                           "1.0000001GiB",
                           "1e3",
                           "0x10",
                           "1_000",
                           "9223372036854775808",
                           "8388608TiB",
                           "8388607.999999TiB1",
                           "99999999999999999999999GiB",
                           "4GiBs",
                           "nan"}) {
    EXPECT_EQ(ParseBytes(text), std::nullopt) << text;
  }
}

TEST(UnitsTest, Seconds) {
  EXPECT_EQ(ParseSeconds("0"), 0.0);
  EXPECT_EQ(ParseSeconds("30s"), 30.0);
  EXPECT_EQ(ParseSeconds("500ms"), 0.5);
  EXPECT_EQ(ParseSeconds("1.5m"), 90.0);
  EXPECT_EQ(ParseSeconds("2h"), 7200.0);
  EXPECT_EQ(ParseSeconds("0s"), 0.0);
  for (const char* text : {"", "s", "30", "-1s", "1d", "1min", "30S", "1h30m", "inf", "1e3s"}) {
    EXPECT_EQ(ParseSeconds(text), std::nullopt) << text;
  }
}

TEST(UnitsTest, FormattedValuesReadBack) {
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{1023}, std::int64_t{1024}, std::int64_t{8} << 20,
        std::int64_t{64} << 40, (std::int64_t{1} << 30) + 1}) {
    EXPECT_EQ(ParseBytes(FormatBytes(bytes)), bytes);
  }
  for (const double seconds : {0.0, 0.1, 0.0005, 1.0, 59.0, 60.0, 90.0, 3600.0, 86400.0}) {
    EXPECT_EQ(ParseSeconds(FormatSeconds(seconds)), seconds) << FormatSeconds(seconds);
  }
  EXPECT_EQ(FormatBytes(8 << 20), "8MiB");
  EXPECT_EQ(FormatSeconds(120), "2m");
  EXPECT_EQ(FormatSeconds(0.1), "100ms");
}

}  // namespace
}  // namespace skipjack
