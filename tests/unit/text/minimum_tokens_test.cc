// The least number of tokens that a text can become, which is known without tokenising it.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <string>
#include <vector>

#include "tests/unit/text/fixture_tokenizers.h"
#include "text/nfc.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace skipjack {
namespace {

constexpr const char* kFixtures[] = {"deepseek_llm", "gpt2", "llama3", "qwen2", "smollm2", "smollm2_real"};

std::string Repeated(std::string_view what, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += what;
  return out;
}

std::size_t Minimum(const Tokenizer& tokenizer, std::string text, bool trusted = false) {
  const Segment segment{std::move(text), trusted};
  return tokenizer.MinimumTokens({&segment, 1});
}

TokenizerSpec ByteSpec(const std::string& pre) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = pre;
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back(ByteLevelName(byte));
  return spec;
}

TEST(MinimumTokensTest, NeverMoreThanThereAre) {
  std::vector<std::string> texts = FixtureTexts();
  for (const char* piece :
       {" ", "\n", "-", "=", "        ", "a", "e\u0301", "\u1100\u1161\u11a8", "\u212b\u0301",
        "\u2126\u0313\u0342\u0345", "<|im_start|>", "<|eot_id|>", "日", "🐟", "\u1fef", "\u212a"}) {
    texts.push_back(Repeated(piece, 1000));
  }
  for (const char* fixture : kFixtures) {
    const auto tokenizer = FixtureTokenizer(fixture);
    for (const std::string& text : texts) {
      for (const bool trusted : {false, true}) {
        EXPECT_LE(Minimum(*tokenizer, text, trusted), EncodeText(*tokenizer, text, trusted).size())
            << fixture << " " << text.substr(0, 40);
      }
    }
  }
}

// And it is of use: thousands of bytes cannot be a handful of tokens.
TEST(MinimumTokensTest, GrowsWithTheText) {
  for (const char* fixture : kFixtures) {
    const auto tokenizer = FixtureTokenizer(fixture);
    EXPECT_EQ(Minimum(*tokenizer, ""), 0u) << fixture;
    EXPECT_EQ(Minimum(*tokenizer, "a"), 1u) << fixture;
    EXPECT_GT(Minimum(*tokenizer, Repeated("word ", 1 << 20)), 5000u) << fixture;
  }
}

TEST(MinimumTokensTest, BytesOverTheLongestToken) {
  TokenizerSpec spec = ByteSpec("gpt-2");
  EXPECT_EQ(Minimum(*MustCreate(spec), std::string(95, 'x')), 95u);
  spec.tokens.push_back("<ten-long>");
  spec.types.assign(256, TokenType::kNormal);
  spec.types.push_back(TokenType::kControl);
  const auto tokenizer = MustCreate(spec);
  EXPECT_EQ(Minimum(*tokenizer, std::string(95, 'x')), 10u);
  EXPECT_EQ(Minimum(*tokenizer, Repeated("<ten-long>", 7), true), 7u);
  EXPECT_EQ(EncodeText(*tokenizer, Repeated("<ten-long>", 7), true).size(), 7u);
  const std::vector<Segment> segments = {{std::string(50, 'x'), true}, {std::string(45, 'x'), false}};
  EXPECT_EQ(tokenizer->MinimumTokens(segments), 10u);
}

TEST(MinimumTokensTest, UnusedTokensDoNotCount) {
  TokenizerSpec spec = ByteSpec("gpt-2");
  spec.tokens.push_back(std::string(1000, '#'));
  spec.types.assign(256, TokenType::kNormal);
  spec.types.push_back(TokenType::kUnused);
  EXPECT_EQ(Minimum(*MustCreate(spec), std::string(95, 'x')), 95u);
}

TEST(MinimumTokensTest, BytesWithoutATokenCountForNothing) {
  TokenizerSpec spec = ByteSpec("gpt-2");
  std::erase(spec.tokens, "x");
  const auto tokenizer = MustCreate(spec);
  EXPECT_EQ(Minimum(*tokenizer, std::string(1000, 'x')), 0u);
  EXPECT_TRUE(EncodeText(*tokenizer, std::string(1000, 'x'), false).empty());
  EXPECT_EQ(Minimum(*tokenizer, Repeated("xy", 500)), 500u);
  // What composing makes of the text cannot be said.
  spec.pre = "qwen2";
  EXPECT_EQ(Minimum(*MustCreate(spec), Repeated("xy", 500)), 0u);
}

TEST(MinimumTokensTest, ComposingShortensByAThirdAtMost) {
  const auto tokenizer = MustCreate(ByteSpec("qwen2"));
  EXPECT_EQ(Minimum(*tokenizer, std::string(99, 'x')), 33u);
  const std::string jamo = Repeated("\u1100\u1161\u11a8", 100);
  EXPECT_EQ(Minimum(*tokenizer, jamo), EncodeText(*tokenizer, jamo, false).size());

  // Every character, as it is and in pieces.
  for (char32_t c = 1; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(c, text);
    EXPECT_LE(text.size(), kMaxNfcShrink * NormalizeNfc(text).size()) << static_cast<std::uint32_t>(c);
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), parts, 32,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &boundary);
    ASSERT_GT(count, 0);
    std::string pieces;
    for (utf8proc_ssize_t i = 0; i < count; ++i) AppendUtf8(static_cast<char32_t>(parts[i]), pieces);
    EXPECT_LE(pieces.size(), kMaxNfcShrink * NormalizeNfc(pieces).size()) << static_cast<std::uint32_t>(c);
  }
}

}  // namespace
}  // namespace skipjack
