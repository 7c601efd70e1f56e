// What depends on the model that is served: prompts that can never fit, ids that are never chosen, and ends
// of an answer that the configuration names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "tests/unit/serve/service_fixture.h"
#include "text/chat_template.h"

namespace skipjack::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Bytes as tokens, and a count of the texts that were tokenised.
class CountingTokenizer final : public Tokenizer {
 public:
  Result<std::vector<TokenId>> Encode(std::span<const Segment> segments,
                                      const EncodeOptions& options) const override {
    ++encoded;
    return bytes_.Encode(segments, options);
  }
  std::size_t MinimumTokens(std::span<const Segment> segments) const override {
    return bytes_.MinimumTokens(segments);
  }
  std::string_view TokenBytes(TokenId id) const override { return bytes_.TokenBytes(id); }
  bool IsControl(TokenId id) const override { return bytes_.IsControl(id); }
  bool IsEndOfGeneration(TokenId id) const override { return bytes_.IsEndOfGeneration(id); }
  std::vector<TokenId> EndOfGenerationTokens() const override { return bytes_.EndOfGenerationTokens(); }
  std::size_t vocabulary_size() const override { return bytes_.vocabulary_size(); }
  std::optional<TokenId> bos() const override { return bytes_.bos(); }
  std::optional<TokenId> eos() const override { return bytes_.eos(); }

  mutable std::atomic<int> encoded{0};

 private:
  ByteTokenizer bytes_;
};

class PromptLengthTest : public ServiceTest {
 protected:
  PromptLengthTest() {
    model_->tokenizer = tokenizer_;
    model_->context_length = 512;
  }

  std::shared_ptr<CountingTokenizer> tokenizer_ = std::make_shared<CountingTokenizer>();
};

TEST_F(PromptLengthTest, WhatCannotFitIsRefusedBeforeItIsTokenised) {
  const Status status = Refused(Text(std::string(8 << 20, 'x')));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("8388608 tokens"), HasSubstr("context of 512")));
  EXPECT_EQ(tokenizer_->encoded, 0);
  // As long as the context: it leaves no room for an answer.
  EXPECT_THAT(Refused(Text(std::string(512, 'x'))).message(), HasSubstr("at most 511 are possible"));
  EXPECT_EQ(tokenizer_->encoded, 0);
}

TEST_F(PromptLengthTest, ChatsToo) {
  model_->chat_template = *ChatTemplate::Parse("{{ messages[0].content }}");
  CompletionRequest request;
  request.prompt = ChatPrompt{{{"messages", {{{"role", "user"}, {"content", std::string(4 << 20, 'x')}}}}}};
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("4194304 tokens"));
  EXPECT_EQ(tokenizer_->encoded, 0);
}

TEST_F(PromptLengthTest, WhatMightFitIsTokenised) {
  CompletionRequest request = Text(std::string(500, 'x'));
  request.max_tokens = 100;
  EXPECT_THAT(Refused(std::move(request)).message(), HasSubstr("501 tokens and max_tokens is 100"));
  EXPECT_EQ(tokenizer_->encoded, 1);
}

// The tokenize call has no context to fit into.
TEST_F(PromptLengthTest, TokenisingAloneIsNotBounded) {
  const auto result = service().Tokenize("bytes", Prompt(std::string(5000, 'x')), false, false);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tokens.size(), 5000u);
}

TEST_F(PromptLengthTest, IdsThatAreNeverChosenAreRefused) {
  model_->config.vocabulary_rows = 300;  // rows from 259 on are padding
  CompletionRequest request = Text("x");
  request.logit_bias = {{259, 1.0}};
  EXPECT_THAT(Refused(std::move(request)).message(), AllOf(HasSubstr("[0, 258]"), HasSubstr("259")));
  request = Text("x");
  request.stop_token_ids = {299};
  EXPECT_THAT(Refused(std::move(request)).message(), AllOf(HasSubstr("[0, 258]"), HasSubstr("299")));
}

using EndStringsTest = ServiceTest;

TEST_F(EndStringsTest, EndAnAnswerAsAnEndTokenDoes) {
  model_->end_strings = {"<end>"};
  CompletionRequest request = Text("x");
  request.include_stop_string = true;  // of its own stop strings
  const auto listener = Start(std::move(request));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, "yes<end>");
  EXPECT_TRUE(listener->WaitUntilCompleted().status.ok());
  const RecordingListener::Choice choice = listener->choices().at(0);
  EXPECT_EQ(choice.text, "yes");
  EXPECT_EQ(choice.tokens.size(), 8u);
  EXPECT_EQ(choice.finish->reason, FinishReason::kStop);
  EXPECT_EQ(choice.finish->stop_string, "");
  EXPECT_EQ(listener->violation(), "");
}

TEST_F(EndStringsTest, DoNotApplyWhereEndTokensDoNot) {
  model_->end_strings = {"<end>"};
  CompletionRequest request = Text("x");
  request.ignore_eos = true;
  const auto listener = Start(std::move(request));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  engine_->Generate(id, "yes<end>no");
  engine_->Finish(id, FinishReason::kLength);
  EXPECT_TRUE(listener->WaitUntilCompleted().status.ok());
  EXPECT_EQ(listener->choices().at(0).text, "yes<end>no");
}

}  // namespace
}  // namespace skipjack::testing
