#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/unit/text/random_text.h"

namespace skipjack {
namespace {

using Kind = Utf8Part::Kind;

std::string Lossy(std::string_view bytes) {
  std::string out;
  AppendLossyUtf8(bytes, out);
  return out;
}

TEST(Utf8Test, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string bytes;
    AppendUtf8(c, bytes);
    const Utf8Part part = FirstUtf8Part(bytes);
    ASSERT_EQ(part.kind, Kind::kCharacter) << std::hex << static_cast<unsigned>(c);
    ASSERT_EQ(part.length, bytes.size());
    const CodePoint decoded = DecodeUtf8(bytes.data());
    ASSERT_EQ(decoded.value, c);
    ASSERT_EQ(decoded.length, bytes.size());
  }
}

TEST(Utf8Test, EveryShorterPrefixIsUnfinished) {
  for (const std::string character : {"é", "ࠀ", "한", "😀", "\xF4\x8F\xBF\xBF"}) {
    for (std::size_t length = 1; length < character.size(); ++length) {
      const Utf8Part part = FirstUtf8Part(character.substr(0, length));
      EXPECT_EQ(part.kind, Kind::kUnfinished);
      EXPECT_EQ(part.length, length);
    }
  }
}

// The examples of Unicode 3.9 (tables 3-8 to 3-11): one U+FFFD for each maximal bad part.
TEST(Utf8Test, ReplacesMaximalBadParts) {
  const std::string r(kReplacementCharacter);
  EXPECT_EQ(Lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(Lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(Lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
  EXPECT_EQ(Lossy("ok \xE2\x82"), "ok " + r);
}

TEST(Utf8Test, FindsTheFirstBadByte) {
  EXPECT_EQ(FindInvalidUtf8(""), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("naïve 한글 😀"), std::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("0123456789abcdef\xFF"), 16u);
  EXPECT_EQ(FindInvalidUtf8("12345678\xED\xA0\x80"), 8u);  // a surrogate
  EXPECT_EQ(FindInvalidUtf8("é\xC3"), 2u);
  EXPECT_EQ(FindInvalidUtf8("\xC0\x80"), 0u);  // overlong
}

TEST(Utf8Test, LossyTextIsWellFormedAndGoodTextUnchanged) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::string bytes = RandomBytes(random, random() % 40);
    EXPECT_EQ(FindInvalidUtf8(Lossy(bytes)), std::string_view::npos);
    const std::string text = RandomText(random, random() % 40);
    EXPECT_EQ(Lossy(text), text);
  }
}

}  // namespace
}  // namespace skipjack
