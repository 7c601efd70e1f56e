#include "registry/tokenizer_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace skipjack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes GGUF metadata, one key after the other.
class Metadata {
 public:
  Metadata& String(std::string_view key, std::string_view value) {
    Key(key, 8);
    Text(value);
    return *this;
  }
  Metadata& UInt32(std::string_view key, std::uint32_t value) {
    Key(key, 4);
    Number(value);
    return *this;
  }
  Metadata& Int32(std::string_view key, std::int32_t value) {
    Key(key, 5);
    Number(value);
    return *this;
  }
  Metadata& Bool(std::string_view key, bool value) {
    Key(key, 7);
    Number(static_cast<std::uint8_t>(value));
    return *this;
  }
  Metadata& Strings(std::string_view key, const std::vector<std::string>& values) {
    Array(key, 8, values.size());
    for (const std::string& value : values) Text(value);
    return *this;
  }
  template <typename Integer>
  Metadata& Integers(std::string_view key, std::uint32_t type, const std::vector<Integer>& values) {
    Array(key, type, values.size());
    for (const Integer value : values) Number(value);
    return *this;
  }

  std::unique_ptr<GgufFile> Parse() {
    std::string head = "GGUF";
    const auto append = [&](const auto& value) {
      head.append(reinterpret_cast<const char*>(&value), sizeof(value));
    };
    append(std::uint32_t{3});
    append(std::uint64_t{0});
    append(keys_);
    bytes_ = head + body_;
    auto file = GgufFile::Parse(std::as_bytes(std::span(bytes_)));
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return *std::move(file);
  }

 private:
  template <typename T>
  void Number(T value) {
    body_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Number(std::uint64_t{text.size()});
    body_ += text;
  }
  void Key(std::string_view key, std::uint32_t type) {
    ++keys_;
    Text(key);
    Number(type);
  }
  void Array(std::string_view key, std::uint32_t type, std::size_t count) {
    Key(key, 9);
    Number(type);
    Number(std::uint64_t{count});
  }

  std::uint64_t keys_ = 0;
  std::string body_;
  std::string bytes_;
};

Metadata Complete() {
  Metadata m;
  m.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "smollm")
      .Strings("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>"})
      .Integers<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 3})
      .Strings("tokenizer.ggml.merges", {"a b"})
      .UInt32("tokenizer.ggml.bos_token_id", 3)
      .UInt32("tokenizer.ggml.eos_token_id", 2)
      .Bool("tokenizer.ggml.add_bos_token", true)
      .String("tokenizer.chat_template", "{{ x }}");
  return m;
}

TEST(TokenizerSourceTest, ReadsEverything) {
  Metadata metadata = Complete();
  const auto file = metadata.Parse();
  const Result<TokenizerSpec> spec = ReadTokenizerSpec(*file, "");
  ASSERT_TRUE(spec.ok()) << spec.status().ToString();
  EXPECT_EQ(spec->model, "gpt2");
  EXPECT_EQ(spec->pre, "smollm");
  EXPECT_THAT(spec->tokens, ElementsAre("a", "b", "ab", "<s>"));
  EXPECT_THAT(spec->types,
              ElementsAre(TokenType::kNormal, TokenType::kNormal, TokenType::kNormal, TokenType::kControl));
  EXPECT_THAT(spec->merges, ElementsAre("a b"));
  EXPECT_EQ(spec->bos, 3);
  EXPECT_EQ(spec->eos, 2);
  EXPECT_FALSE(spec->eot);
  EXPECT_TRUE(spec->add_bos);
  EXPECT_FALSE(spec->add_eos);
  EXPECT_EQ(**ReadChatTemplate(*file), "{{ x }}");
}

TEST(TokenizerSourceTest, ThePreTokenizerCanBeOverridden) {
  Metadata metadata = Complete();
  EXPECT_EQ(ReadTokenizerSpec(*metadata.Parse(), "llama-bpe")->pre, "llama-bpe");
}

// Converters write it for a tokenizer that they do not know, so it says nothing about the model.
TEST(TokenizerSourceTest, DefaultIsTakenFromTheConfigurationOnly) {
  Metadata metadata;
  metadata.String("tokenizer.ggml.model", "gpt2")
      .String("tokenizer.ggml.pre", "default")
      .Strings("tokenizer.ggml.tokens", {"a"});
  const Result<TokenizerSpec> refused = ReadTokenizerSpec(*metadata.Parse(), "");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("tokenizer.ggml.pre is 'default'"));
  EXPECT_THAT(refused.status().message(), HasSubstr("pre_tokenizer in the model's configuration"));
  EXPECT_EQ(ReadTokenizerSpec(*metadata.Parse(), "default")->pre, "default");
  EXPECT_EQ(ReadTokenizerSpec(*metadata.Parse(), "qwen2")->pre, "qwen2");
}

TEST(TokenizerSourceTest, WhatTheFormatLeavesOutMayBeAbsent) {
  Metadata metadata;
  metadata.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", {"a"});
  const auto file = metadata.Parse();
  const Result<TokenizerSpec> spec = ReadTokenizerSpec(*file, "");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->pre, "");  // Tokenizer::Create refuses that, naming the key
  EXPECT_TRUE(spec->types.empty());
  EXPECT_FALSE(spec->bos);
  EXPECT_FALSE(ReadChatTemplate(*file)->has_value());
}

TEST(TokenizerSourceTest, TypesMayBeUnsigned) {
  Metadata metadata;
  metadata.String("tokenizer.ggml.model", "gpt2")
      .Strings("tokenizer.ggml.tokens", {"a", "b"})
      .Integers<std::uint32_t>("tokenizer.ggml.token_type", 4, {6, 2});
  EXPECT_THAT(ReadTokenizerSpec(*metadata.Parse(), "")->types,
              ElementsAre(TokenType::kByte, TokenType::kUnknown));
}

Status Broken(const std::function<void(Metadata&)>& add) {
  Metadata metadata;
  add(metadata);
  return ReadTokenizerSpec(*metadata.Parse(), "").status();
}

TEST(TokenizerSourceTest, NamesTheKeyThatIsWrong) {
  const auto with_tokens = [](Metadata& m) -> Metadata& {
    return m.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", {"a", "b"});
  };
  EXPECT_THAT(Broken([](Metadata& m) { m.Strings("tokenizer.ggml.tokens", {"a"}); }).message(),
              HasSubstr("tokenizer.ggml.model"));
  EXPECT_THAT(Broken([](Metadata& m) { m.String("tokenizer.ggml.model", "gpt2"); }).message(),
              HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(
      Broken([&](Metadata& m) { with_tokens(m).String("tokenizer.ggml.bos_token_id", "1"); }).message(),
      HasSubstr("tokenizer.ggml.bos_token_id"));
  EXPECT_THAT(Broken([&](Metadata& m) { with_tokens(m).Int32("tokenizer.ggml.eos_token_id", -1); }).message(),
              HasSubstr("tokenizer.ggml.eos_token_id is -1"));
  EXPECT_THAT(Broken([&](Metadata& m) {
                with_tokens(m).Integers<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 7});
              }).message(),
              HasSubstr("tokenizer.ggml.token_type[1] must lie in [1, 6], got 7"));
  EXPECT_THAT(
      Broken([&](Metadata& m) { with_tokens(m).Strings("tokenizer.ggml.token_type", {"1"}); }).message(),
      HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(
      Broken([&](Metadata& m) { with_tokens(m).String("tokenizer.ggml.add_bos_token", "yes"); }).message(),
      HasSubstr("tokenizer.ggml.add_bos_token"));
}

TEST(TokenizerSourceTest, ReadsAPublishedModel) {
  const auto file = GgufFile::Open(SKIPJACK_FIXTURES "/tokenizers/smollm2_real.vocab.gguf");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  Result<TokenizerSpec> spec = ReadTokenizerSpec(**file, "");
  ASSERT_TRUE(spec.ok());
  EXPECT_EQ(spec->tokens.size(), 49152u);
  EXPECT_EQ(spec->tokens[1], "<|im_start|>");
  EXPECT_EQ(spec->bos, 1);
  EXPECT_EQ(spec->eos, 2);
  EXPECT_FALSE(spec->add_bos.value_or(true));
  EXPECT_THAT(**ReadChatTemplate(**file), HasSubstr("<|im_start|>"));
}

}  // namespace
}  // namespace skipjack
