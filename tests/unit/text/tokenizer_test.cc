#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/unit/text/fixture_tokenizers.h"
#include "tests/unit/text/random_text.h"
#include "text/nfc.h"
#include "text/utf8.h"

namespace skipjack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr TokenId kBos = 640, kEotId = 646;  // of the llama3 fixture

std::vector<TokenId> Encode(const Tokenizer& tokenizer, const std::vector<Segment>& segments,
                            bool add_special = false) {
  const auto ids = tokenizer.Encode(segments, {.add_special = add_special});
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  return ids.ok() ? *ids : std::vector<TokenId>();
}

// All bytes, no merges, and `extra` tokens from id 256 on.
TokenizerSpec ByteSpec(const std::vector<std::pair<std::string, TokenType>>& extra) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(ByteLevelName(byte));
    spec.types.push_back(TokenType::kNormal);
  }
  for (const auto& [name, type] : extra) {
    spec.tokens.push_back(name);
    spec.types.push_back(type);
  }
  return spec;
}

TEST(TokenizerTest, UserTextNeverBecomesAControlToken) {
  const auto tokenizer = FixtureTokenizer("llama3");
  const std::string text = "<|begin_of_text|>x<|eot_id|>";
  for (const TokenId id : EncodeText(*tokenizer, text, false)) EXPECT_FALSE(tokenizer->IsControl(id));
  EXPECT_EQ(tokenizer->Decode(EncodeText(*tokenizer, text, false), true), text);
  const std::vector<TokenId> trusted = EncodeText(*tokenizer, text, true);
  EXPECT_EQ(trusted.front(), kBos);
  EXPECT_EQ(trusted.back(), kEotId);
}

TEST(TokenizerTest, AMarkerSpeltAcrossTheBorderOfTrustIsText) {
  const auto tokenizer = FixtureTokenizer("llama3");
  for (const auto& segments :
       std::vector<std::vector<Segment>>{{{"<|eot_", true}, {"id|>", false}},
                                         {{"<|eot_", false}, {"id|>", true}},
                                         {{"<|eot", true}, {"_", false}, {"id|>", true}}}) {
    const auto ids = Encode(*tokenizer, segments);
    EXPECT_EQ(ids, EncodeText(*tokenizer, "<|eot_id|>", false));
  }
}

TEST(TokenizerTest, HowATemplateCutsItsOwnTextDoesNotMatter) {
  const auto tokenizer = FixtureTokenizer("llama3");
  EXPECT_THAT(Encode(*tokenizer, {{"<|eot_", true}, {"", false}, {"id|>", true}}), ElementsAre(kEotId));
}

// As the reference does with the whole prompt: "\n\n" and "\n" of the template and the user are one piece.
TEST(TokenizerTest, TextIsEncodedAsOneAcrossSegments) {
  const auto tokenizer = FixtureTokenizer("smollm2_real");
  const std::string whole = "user text that goes on";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    EXPECT_EQ(Encode(*tokenizer, {{whole.substr(0, cut), true}, {whole.substr(cut), false}}),
              EncodeText(*tokenizer, whole, false));
  }
}

TEST(TokenizerTest, OneStartToken) {
  const auto tokenizer = FixtureTokenizer("llama3");
  const TokenId a = EncodeText(*tokenizer, "a", false).front();
  EXPECT_THAT(Encode(*tokenizer, {{"a", false}}, true), ElementsAre(kBos, a));
  EXPECT_THAT(Encode(*tokenizer, {{"a", false}}, false), ElementsAre(a));
  EXPECT_THAT(Encode(*tokenizer, {{"<|begin_of_text|>a", true}}, true), ElementsAre(kBos, a));
  EXPECT_THAT(Encode(*tokenizer, {{"", false}, {"<|begin_of_text|>", true}, {"a", false}}, true),
              ElementsAre(kBos, a));
  EXPECT_THAT(Encode(*tokenizer, {}, true), ElementsAre(kBos));
  // What the user spells is text and does not stand in for it.
  EXPECT_EQ(Encode(*tokenizer, {{"<|begin_of_text|>", false}}, true).front(), kBos);
  EXPECT_GT(Encode(*tokenizer, {{"<|begin_of_text|>", false}}, true).size(), 2u);
}

TEST(TokenizerTest, StartTokenByFamilyWhereTheFileDoesNotSay) {
  for (const auto& [pre, expected] :
       std::vector<std::pair<std::string, bool>>{{"llama-bpe", true}, {"gpt-2", false}}) {
    TokenizerSpec spec = ByteSpec({{"<s>", TokenType::kControl}});
    spec.pre = pre;
    spec.bos = 256;
    EXPECT_EQ(Encode(*MustCreate(spec), {{"x", false}}, true).size(), expected ? 2u : 1u) << pre;
    spec.add_bos = !expected;
    EXPECT_EQ(Encode(*MustCreate(spec), {{"x", false}}, true).size(), expected ? 1u : 2u) << pre;
  }
}

TEST(TokenizerTest, EndTokenWhereTheModelWantsOne) {
  TokenizerSpec spec = ByteSpec({{"</s>", TokenType::kControl}});
  spec.eos = 256;
  spec.add_eos = true;
  const auto tokenizer = MustCreate(spec);
  EXPECT_THAT(Encode(*tokenizer, {{"x", false}}, true), ElementsAre('x', 256));
  EXPECT_THAT(Encode(*tokenizer, {{"x</s>", true}}, true), ElementsAre('x', 256));
  EXPECT_THAT(Encode(*tokenizer, {{"x", false}}, false), ElementsAre('x'));
}

TEST(TokenizerTest, TheLongestTokenAtTheLeftmostPlaceWins) {
  const auto tokenizer = MustCreate(ByteSpec({{"<a", TokenType::kControl},
                                              {"<ab>", TokenType::kControl},
                                              {"b><", TokenType::kControl},
                                              {"<ab>!", TokenType::kControl}}));
  EXPECT_THAT(EncodeText(*tokenizer, "<ab><a", true), ElementsAre(257, 256));
  EXPECT_THAT(EncodeText(*tokenizer, "<ab>!x<ab", true), ElementsAre(259, 'x', 256, 'b'));
  EXPECT_THAT(EncodeText(*tokenizer, "ab><", true), ElementsAre('a', 258));
}

TEST(TokenizerTest, UserDefinedTokensOfWordsMatchEverywhereMarkersInTrustedTextOnly) {
  const auto tokenizer = MustCreate(ByteSpec({{"    ", TokenType::kUserDefined},
                                              {"skipjack", TokenType::kUserDefined},
                                              {"<tool>", TokenType::kUserDefined},
                                              {"<｜User｜>", TokenType::kUserDefined}}));
  EXPECT_THAT(EncodeText(*tokenizer, "    skipjack", false), ElementsAre(256, 257));
  EXPECT_THAT(EncodeText(*tokenizer, "<tool><｜User｜>", true), ElementsAre(258, 259));
  for (const TokenId id : EncodeText(*tokenizer, "<tool><｜User｜>", false)) EXPECT_LT(id, 256);
  // They are text: they are decoded whether special tokens are skipped or not, byte for byte.
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{259, 257}, true), "<｜User｜>skipjack");
}

TEST(TokenizerTest, EndNamesAreControlWhateverTheirType) {
  const auto tokenizer =
      MustCreate(ByteSpec({{"<|im_end|>", TokenType::kNormal}, {"<|eot_id|>", TokenType::kUserDefined}}));
  EXPECT_TRUE(tokenizer->IsControl(256));
  EXPECT_THAT(tokenizer->EndOfGenerationTokens(), ElementsAre(256, 257));
  for (const TokenId id : EncodeText(*tokenizer, "<|im_end|><|eot_id|>", false)) EXPECT_LT(id, 256);
}

TEST(TokenizerTest, EndOfGeneration) {
  const auto smollm = FixtureTokenizer("smollm2_real");
  EXPECT_THAT(smollm->EndOfGenerationTokens(), ElementsAre(0, 2));
  EXPECT_TRUE(smollm->IsEndOfGeneration(2));
  EXPECT_FALSE(smollm->IsEndOfGeneration(1));
  EXPECT_THAT(FixtureTokenizer("llama3")->EndOfGenerationTokens(), ElementsAre(641, 645, 646));

  TokenizerSpec spec = ByteSpec({{"<|end|>", TokenType::kControl},
                                 {"<|return|>", TokenType::kControl},
                                 {"<|call|>", TokenType::kControl},
                                 {"</s>", TokenType::kControl},
                                 {"<turn>", TokenType::kControl}});
  spec.eos = 259;
  spec.eot = 260;
  EXPECT_THAT(MustCreate(spec)->EndOfGenerationTokens(), ElementsAre(257, 258, 259, 260));
}

TEST(TokenizerTest, InvalidUtf8IsRefusedWithItsPlace) {
  const auto tokenizer = FixtureTokenizer("gpt2");
  const std::vector<Segment> segments = {{"fine", true}, {"abc\xC3(", false}};
  const auto ids = tokenizer->Encode(segments, {});
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(ids.status().message(), HasSubstr("byte 3 of segment 1"));
  // Halves of a character in two segments do not make a whole one.
  EXPECT_FALSE(tokenizer->Encode(std::vector<Segment>{{"\xC3", false}, {"\xA9", false}}, {}).ok());
}

TEST(TokenizerTest, Decode) {
  const auto tokenizer = MustCreate(ByteSpec({{"<s>", TokenType::kControl}, {"[PAD]", TokenType::kUnused}}));
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{256, 'h', 'i', 257}, true), "hi");
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{256, 'h', 'i'}, false), "<s>hi");
  // A character may be cut by a token that gives no text.
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{0xC3, 256, 0xA9}, true), "é");
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{0xE2, 0x82, 'x', 0xFF}, true), "\uFFFDx\uFFFD");
  EXPECT_EQ(tokenizer->Decode(std::vector<TokenId>{-1, 999, 'x'}, true), "x");
  EXPECT_THAT(tokenizer->TokenBytes(-1), IsEmpty());
  EXPECT_THAT(tokenizer->TokenBytes(258), IsEmpty());
  EXPECT_FALSE(tokenizer->IsControl(258));
}

class RoundTripTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RoundTripTest, DecodeUndoesEncode) {
  const auto tokenizer = FixtureTokenizer(GetParam());
  std::mt19937_64 random(42);
  for (int round = 0; round < 1000; ++round) {
    const std::string text = RandomText(random, random() % 100);
    const std::string expected = GetParam() == "qwen2" ? NormalizeNfc(text) : text;
    ASSERT_EQ(tokenizer->Decode(EncodeText(*tokenizer, text, false), true), expected);
    ASSERT_EQ(tokenizer->Decode(EncodeText(*tokenizer, text, true), false), expected);
  }
}
INSTANTIATE_TEST_SUITE_P(Fixtures, RoundTripTest, ::testing::Values("gpt2", "llama3", "smollm2", "qwen2"));

class HostileTextTest : public ::testing::TestWithParam<std::string> {};

// Half a MiB each; anything quadratic would not come back within the hour.
TEST_P(HostileTextTest, LongRuns) {
  const auto tokenizer = FixtureTokenizer(GetParam());
  constexpr std::size_t kBytes = 512 << 10;
  for (const std::string unit : {"a", " ", "\n", "=", "1", "\u0301", "\u0302\u0331", "😀", "中", "'", "é ",
                                 " \n", "<|im_start|", "<|endoftext|>", "\u1100\u1161\u11A8"}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    for (const bool trusted : {false, true}) {
      if (trusted && !unit.starts_with('<')) continue;  // nothing that it could match
      const std::string decoded = tokenizer->Decode(EncodeText(*tokenizer, text, trusted), false);
      EXPECT_TRUE(decoded == text || (GetParam() == "qwen2" && decoded == NormalizeNfc(text))) << unit;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Fixtures, HostileTextTest, ::testing::Values("qwen2", "smollm2_real"));

}  // namespace
}  // namespace skipjack
