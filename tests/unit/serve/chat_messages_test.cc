// What becomes of a chat's messages before a template sees them, and how each mistake is named.
#include "serve/chat_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skipjack {
namespace {

using ::testing::HasSubstr;

Json Normalized(const std::string& messages) {
  Json json = Json::parse(messages);
  const Status status = NormalizeMessages(&json);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return json;
}

std::string WhyRefused(const std::string& messages) {
  Json json = Json::parse(messages);
  const Status status = NormalizeMessages(&json);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << messages;
  return status.message();
}

TEST(ChatMessages, TakeTheFormThatTemplatesExpect) {
  EXPECT_EQ(Normalized(R"([
    {"role": "developer", "content": "rules"},
    {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "user", "content": []},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"y\": 1, \"x\": [1]}"}},
      {"id": "2", "type": "function", "function": {"name": "g", "arguments": ""}},
      {"id": "3", "type": "function", "function": {"name": "h", "arguments": {"z": 2}}}]},
    {"role": "assistant"},
    {"role": "tool", "tool_call_id": "1", "content": "42"}])")
                .dump(),
            Json::parse(R"([
    {"role": "system", "content": "rules"},
    {"role": "user", "name": "Ann", "content": "a\nb"},
    {"role": "user", "content": ""},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"y": 1, "x": [1]}}},
      {"id": "2", "type": "function", "function": {"name": "g", "arguments": {}}},
      {"id": "3", "type": "function", "function": {"name": "h", "arguments": {"z": 2}}}]},
    {"role": "assistant"},
    {"role": "tool", "tool_call_id": "1", "content": "42"}])")
                .dump());
}

TEST(ChatMessages, MistakesNameTheirPlace) {
  EXPECT_THAT(WhyRefused("null"), HasSubstr("messages must be a list, got null"));
  EXPECT_THAT(WhyRefused("[]"), HasSubstr("messages must have at least one entry"));
  EXPECT_THAT(WhyRefused(R"([{"role": "user", "content": "x"}, 5])"),
              HasSubstr("messages[1] must be an object, got 5"));
  for (const std::string message :
       {R"({"content": "x"})", R"({"role": 1, "content": "x"})", R"({"role": ""})"}) {
    EXPECT_THAT(WhyRefused("[" + message + "]"), HasSubstr("messages[0].role must be a string"));
  }
  EXPECT_THAT(WhyRefused(R"([{"role": "user"}])"), HasSubstr("messages[0].content is required"));
  EXPECT_THAT(WhyRefused(R"([{"role": "user", "content": null}])"),
              HasSubstr("messages[0].content is required"));
  EXPECT_THAT(WhyRefused(R"([{"role": "user", "content": 5}])"),
              HasSubstr("messages[0].content must be a string or an array of text parts, got 5"));
  const auto content = [](const std::string& parts) {
    return WhyRefused(R"([{"role": "user", "content": [)" + parts + "]}]");
  };
  EXPECT_THAT(content(R"({"type": "text", "text": "a"}, "b")"),
              HasSubstr("messages[0].content[1] must be an object with type and text, got \"b\""));
  EXPECT_THAT(content(R"({"type": "image_url", "image_url": {}})"),
              HasSubstr("messages[0].content[0].type must be \"text\": other kinds of content are not "
                        "supported, got \"image_url\""));
  EXPECT_THAT(content(R"({"text": "a"})"), HasSubstr("messages[0].content[0].type must be \"text\""));
  EXPECT_THAT(content(R"({"type": "text", "text": 3})"),
              HasSubstr("messages[0].content[0].text must be a string"));
}

TEST(ChatMessages, MistakesInToolCallsNameTheirPlace) {
  const auto calls = [](const std::string& value) {
    return WhyRefused(R"([{"role": "assistant", "tool_calls": )" + value + "}]");
  };
  EXPECT_THAT(calls("{}"), HasSubstr("messages[0].tool_calls must be an array, got an object"));
  EXPECT_THAT(calls("[3]"), HasSubstr("messages[0].tool_calls[0] must be an object with a function object"));
  EXPECT_THAT(calls("[{}]"), HasSubstr("messages[0].tool_calls[0] must be"));
  EXPECT_THAT(calls(R"([{"function": "f"}])"), HasSubstr("messages[0].tool_calls[0] must be"));
  EXPECT_THAT(calls(R"([{"function": {"arguments": "{"}}])"),
              HasSubstr("messages[0].tool_calls[0].function.arguments is not acceptable JSON"));
  EXPECT_THAT(
      calls(R"([{"function": {"arguments": "[1]"}}])"),
      HasSubstr("messages[0].tool_calls[0].function.arguments must hold a JSON object, got an array"));
}

// JSON inside of JSON gets around what bounds the body.
TEST(ChatMessages, ArgumentsAreBoundedLikeTheRest) {
  const auto with_arguments = [](const std::string& arguments, int calls = 1) {
    Json call;
    call["function"]["arguments"] = arguments;
    Json message;
    message["role"] = "assistant";
    message["tool_calls"] = Json::array();
    for (int i = 0; i < calls; ++i) message["tool_calls"].push_back(call);
    Json messages = Json::array({message});
    return NormalizeMessages(&messages).message();
  };
  std::string wide = "{";
  for (int i = 0; i < 800'000; ++i) wide += "\"" + std::to_string(i) + "\":0,";
  EXPECT_THAT(with_arguments(wide + "\"x\":0}"), HasSubstr("more than 2048 members"));
  const auto nested = [](int depth) {
    return R"({"a":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  // With the six levels around them that is what a chat may have.
  EXPECT_EQ(with_arguments(nested(kMaxChatNesting - 6)), "");
  EXPECT_THAT(with_arguments(nested(kMaxChatNesting - 5)), HasSubstr("deeper than 58 levels"));
  // All calls of a chat share one bound.
  std::string members = "{\"x\":0";
  for (int i = 1; i < 1000; ++i) members += ",\"" + std::to_string(i) + "\":0";
  EXPECT_EQ(with_arguments(members + "}", 65), "");
  EXPECT_THAT(with_arguments(members + "}", 66), HasSubstr("more than 65536 members altogether"));
}

}  // namespace
}  // namespace skipjack
