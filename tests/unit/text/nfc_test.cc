#include "text/nfc.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>
#include <string>

#include "tests/unit/text/random_text.h"

namespace skipjack {
namespace {

// The whole text at once through the library, which is quadratic in runs of marks.
std::string Reference(const std::string& text) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  EXPECT_GE(length, 0);
  std::string result(reinterpret_cast<const char*>(out), static_cast<std::size_t>(length));
  std::free(out);
  return result;
}

TEST(NfcTest, ExamplesOfUax15) {
  EXPECT_EQ(NormalizeNfc("e\u0301"), "\u00E9");
  EXPECT_EQ(NormalizeNfc("A\u030A"), "\u00C5");
  EXPECT_EQ(NormalizeNfc("\u212B"), "\u00C5");         // angstrom sign
  EXPECT_EQ(NormalizeNfc("\u2126"), "\u03A9");         // ohm sign
  EXPECT_EQ(NormalizeNfc("\uFB01"), "\uFB01");         // compatibility only
  EXPECT_EQ(NormalizeNfc("s\u0307\u0323"), "\u1E69");  // marks reordered
  EXPECT_EQ(NormalizeNfc("\u1E0B\u0323"), "\u1E0D\u0307");
  EXPECT_EQ(NormalizeNfc("\u1112\u1161\u11AB"), "\uD55C");
  EXPECT_EQ(NormalizeNfc("\uD558\u11AB"), "\uD55C");  // a syllable and a trailing consonant
  EXPECT_EQ(NormalizeNfc("\u0958"), "\u0915\u093C");  // excluded from composition
  EXPECT_EQ(NormalizeNfc("\u0301a"), "\u0301a");
  EXPECT_EQ(NormalizeNfc(""), "");
}

TEST(NfcTest, ComposedTextNeedsNothing) {
  EXPECT_FALSE(MayNeedNfc("plain, Größe, naïve"));
  EXPECT_FALSE(MayNeedNfc("今天天气很好 Привет 😀"));
  EXPECT_TRUE(MayNeedNfc("e\u0301"));
  EXPECT_TRUE(MayNeedNfc("\u2126"));
}

TEST(NfcTest, AgreesWithTheLibraryOnRandomText) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = RandomText(random, random() % 60);
    const std::string normal = NormalizeNfc(text);
    EXPECT_EQ(normal, Reference(text)) << text;
    EXPECT_EQ(NormalizeNfc(normal), normal);
    EXPECT_TRUE(MayNeedNfc(text) || normal == text);
  }
}

TEST(NfcTest, AgreesWithTheLibraryOnEveryCharacter) {
  for (utf8proc_int32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    utf8proc_uint8_t bytes[4];
    const auto length = static_cast<std::size_t>(utf8proc_encode_char(c, bytes));
    const std::string character(reinterpret_cast<const char*>(bytes), length);
    for (const std::string& text : {character, "a" + character + "\u0301\u0323b"}) {
      ASSERT_EQ(NormalizeNfc(text), Reference(text)) << std::hex << c;
    }
  }
}

// Alternating classes are the worst case of an ordering by exchanges.
TEST(NfcTest, LongRunsOfMarksAreSorted) {
  constexpr int kPairs = 100'000;
  std::string text = "x", sorted = "x";
  for (int i = 0; i < kPairs; ++i) text += "\u0302\u0331";  // above (230), below (220)
  for (int i = 0; i < kPairs; ++i) sorted += "\u0331";
  for (int i = 0; i < kPairs; ++i) sorted += "\u0302";
  EXPECT_EQ(NormalizeNfc(text), sorted);
}

}  // namespace
}  // namespace skipjack
