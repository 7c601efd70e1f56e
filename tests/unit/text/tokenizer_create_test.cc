// Tokenizer::Create names what is wrong with a vocabulary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/text/fixture_tokenizers.h"

namespace skipjack {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TokenizerSpec SmallSpec() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens = {"a", "b", "ab", "<s>", "</s>"};
  spec.types = {TokenType::kNormal, TokenType::kNormal, TokenType::kNormal, TokenType::kControl,
                TokenType::kControl};
  spec.merges = {"a b"};
  spec.bos = 3;
  spec.eos = 4;
  return spec;
}

std::string ErrorOf(const TokenizerSpec& spec) {
  const auto tokenizer = Tokenizer::Create(spec);
  EXPECT_FALSE(tokenizer.ok());
  if (tokenizer.ok()) return "";
  EXPECT_EQ(tokenizer.status().code(), StatusCode::kInvalidArgument);
  return tokenizer.status().message();
}

TEST(TokenizerCreateTest, AcceptsASmallVocabulary) {
  const auto tokenizer = MustCreate(SmallSpec());
  EXPECT_EQ(tokenizer->vocabulary_size(), 5u);
  EXPECT_EQ(tokenizer->bos(), 3);
  EXPECT_EQ(tokenizer->eos(), 4);
  EXPECT_THAT(EncodeText(*tokenizer, "abba", false), ElementsAre(2, 1, 0));
}

TEST(TokenizerCreateTest, UnknownModel) {
  TokenizerSpec spec = SmallSpec();
  spec.model = "llama";
  EXPECT_THAT(ErrorOf(spec), AllOf(HasSubstr("tokenizer.ggml.model is 'llama'"), HasSubstr("known: gpt2")));
}

TEST(TokenizerCreateTest, UnknownOrMissingPreTokenizer) {
  TokenizerSpec spec = SmallSpec();
  spec.pre = "my-own";
  EXPECT_THAT(ErrorOf(spec), AllOf(HasSubstr("tokenizer.ggml.pre is 'my-own'"), HasSubstr("llama-bpe"),
                                   HasSubstr("smollm")));
  spec.pre.clear();
  EXPECT_THAT(ErrorOf(spec), AllOf(HasSubstr("tokenizer.ggml.pre is missing"), HasSubstr("qwen2")));
}

TEST(TokenizerCreateTest, EmptyVocabulary) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  EXPECT_THAT(ErrorOf(spec), HasSubstr("tokenizer.ggml.tokens: the vocabulary is empty"));
}

TEST(TokenizerCreateTest, TypesOfAnotherLength) {
  TokenizerSpec spec = SmallSpec();
  spec.types.pop_back();
  EXPECT_THAT(ErrorOf(spec), HasSubstr("tokenizer.ggml.token_type: 4 types for 5 tokens"));
}

TEST(TokenizerCreateTest, UnknownType) {
  TokenizerSpec spec = SmallSpec();
  spec.types[1] = static_cast<TokenType>(9);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("token 1 'b' has the unknown type 9"));
  spec.types[1] = TokenType::kByte;
  EXPECT_THAT(ErrorOf(spec), HasSubstr("token 1 'b' is of type byte"));
}

TEST(TokenizerCreateTest, DuplicateTokens) {
  TokenizerSpec spec = SmallSpec();
  spec.tokens[4] = "a";
  EXPECT_THAT(ErrorOf(spec), HasSubstr("'a' stands twice, as id 0 and 4"));
}

TEST(TokenizerCreateTest, SpecialIdsOutsideTheVocabulary) {
  const std::pair<std::optional<TokenId> TokenizerSpec::*, std::string> ids[] = {
      {&TokenizerSpec::bos, "bos_token_id"},
      {&TokenizerSpec::eos, "eos_token_id"},
      {&TokenizerSpec::eot, "eot_token_id"},
      {&TokenizerSpec::unknown, "unknown_token_id"},
      {&TokenizerSpec::padding, "padding_token_id"}};
  for (const auto& [member, key] : ids) {
    for (const TokenId id : {-1, 5, 1 << 30}) {
      TokenizerSpec spec = SmallSpec();
      spec.*member = id;
      EXPECT_THAT(ErrorOf(spec), HasSubstr("tokenizer.ggml." + key + ": id " + std::to_string(id) +
                                           " lies outside the vocabulary of 5 tokens"));
    }
  }
}

TEST(TokenizerCreateTest, StartAndEndTokensThatAreNotThere) {
  TokenizerSpec spec = SmallSpec();
  spec.bos.reset();
  spec.add_bos = true;
  EXPECT_THAT(ErrorOf(spec), HasSubstr("add_bos_token is true, but there is no bos_token_id"));
  spec = SmallSpec();
  spec.eos.reset();
  spec.add_eos = true;
  EXPECT_THAT(ErrorOf(spec), HasSubstr("add_eos_token is true, but there is no eos_token_id"));
}

TEST(TokenizerCreateTest, MalformedMerges) {
  for (const std::string merge : {"", " ", "ab", "a ", " b", "a  b", "a b ab"}) {
    TokenizerSpec spec = SmallSpec();
    spec.merges = {"a b", merge};
    EXPECT_THAT(ErrorOf(spec),
                HasSubstr("merge 1 '" + merge + "' is not two tokens with one space between them"));
  }
}

TEST(TokenizerCreateTest, MergesOfTokensThatAreNotThere) {
  TokenizerSpec spec = SmallSpec();
  spec.merges = {"a c"};
  EXPECT_THAT(ErrorOf(spec), HasSubstr("merge 0 'a c' needs the token 'c', which the vocabulary lacks"));
  spec.merges = {"b a"};
  EXPECT_THAT(ErrorOf(spec), HasSubstr("needs the token 'ba'"));
  spec = SmallSpec();
  spec.types[2] = TokenType::kControl;
  EXPECT_THAT(ErrorOf(spec), HasSubstr("has the part 'ab', which is not an ordinary token"));
}

TEST(TokenizerCreateTest, NamelessTokensStayUnused) {
  TokenizerSpec spec = SmallSpec();
  spec.tokens.insert(spec.tokens.end(), {"", ""});
  spec.types.insert(spec.types.end(), {TokenType::kNormal, TokenType::kUnused});
  const auto tokenizer = MustCreate(spec);
  EXPECT_EQ(tokenizer->TokenBytes(5), "");
  EXPECT_TRUE(tokenizer->IsControl(6));
  EXPECT_THAT(EncodeText(*tokenizer, "ab", true), ElementsAre(2));
}

TEST(TokenizerCreateTest, WithoutTypesStartAndEndAreControl) {
  TokenizerSpec spec = SmallSpec();
  spec.types.clear();
  const auto tokenizer = MustCreate(spec);
  EXPECT_TRUE(tokenizer->IsControl(3));
  EXPECT_TRUE(tokenizer->IsControl(4));
  EXPECT_FALSE(tokenizer->IsControl(2));
}

}  // namespace
}  // namespace skipjack
