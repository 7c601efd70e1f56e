#include "serve/continue_message.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/join_segments.h"
#include "text/chat_template.h"

namespace skipjack {
namespace {

using testing::JoinSegments;

// "[user]Hi[/]\n[assistant]<content>[/]\n" in ChatML's manner: roles and contents come from the messages.
std::vector<Segment> Rendered(const std::string& content) {
  return {{"<|im_start|>", true},
          {"user", false},
          {"\n", true},
          {"Hi", false},
          {"<|im_end|>\n<|im_start|>", true},
          {"assistant", false},
          {"\n", true},
          {content, false},
          {"<|im_end|>\n", true}};
}

constexpr const char* kHead = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";

std::string Cut(const std::string& content, std::vector<Segment> segments) {
  const Status status = CutAfterFinalMessage(content, &segments);
  return status.ok() ? JoinSegments(segments) : status.ToString();
}

TEST(ContinueMessage, EndsBehindTheText) {
  EXPECT_EQ(Cut("The capital is", Rendered("The capital is")), kHead + std::string("The capital is"));
}

TEST(ContinueMessage, BlanksAtTheEndDependOnTheTemplate) {
  EXPECT_EQ(Cut("So: ", Rendered("So: ")), kHead + std::string("So: "));
  EXPECT_EQ(Cut(" So: \n", Rendered("So:")), kHead + std::string("So:"));  // a template that trims
}

// The scaffolding behind the message spells the same; only what stems from the messages counts.
TEST(ContinueMessage, TextOfTheTemplateIsNoMatch) {
  EXPECT_EQ(Cut("im", Rendered("im")), kHead + std::string("im"));
  EXPECT_EQ(Cut("<|im_end|>", Rendered("<|im_end|>")), kHead + std::string("<|im_end|>"));
}

TEST(ContinueMessage, TheLastOccurrenceCounts) {
  EXPECT_EQ(Cut("Hi", Rendered("Hi")), kHead + std::string("Hi"));
  EXPECT_EQ(Cut("a b", Rendered("(a b a b)")), kHead + std::string("(a b a b"));
}

TEST(ContinueMessage, RefusesWhatTheTemplateDidNotShow) {
  for (const std::string content : {"absent", "", "  \n"}) {
    std::vector<Segment> segments = Rendered("shown");
    EXPECT_EQ(CutAfterFinalMessage(content, &segments).code(), StatusCode::kInvalidArgument) << content;
  }
}

}  // namespace
}  // namespace skipjack
