// Request bodies: what they become, and how each mistake is named.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/http/openai_parse.h"

namespace skipjack::http {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

ParsedCompletion Accept(Api api, std::string_view body, ParseOptions options = {}) {
  Parsed<ParsedCompletion> parsed = ParseCompletion(api, body, options);
  if (const auto* error = std::get_if<HttpError>(&parsed)) {
    ADD_FAILURE() << error->message;
    return {};
  }
  return std::get<ParsedCompletion>(std::move(parsed));
}

HttpError Refuse(Api api, std::string_view body, ParseOptions options = {}) {
  Parsed<ParsedCompletion> parsed = ParseCompletion(api, body, options);
  if (const auto* error = std::get_if<HttpError>(&parsed)) {
    EXPECT_EQ(error->status, 400);
    return *error;
  }
  ADD_FAILURE() << "accepted: " << body;
  return {};
}

// A completions request with one more field.
std::string With(const std::string& field) {
  return R"({"prompt": "x", )" + field + "}";
}

// A chat request with one more field.
std::string ChatWith(const std::string& field) {
  return R"({"messages": [{"role": "user", "content": "x"}], )" + field + "}";
}

TEST(ParseCompletion, ReadsEveryField) {
  const ParsedCompletion parsed = Accept(Api::kCompletions, R"({
    "model": "m", "prompt": "Hi", "max_tokens": 5, "min_tokens": 2, "n": 3, "best_of": 3, "temperature": 0.5,
    "top_p": 1, "top_k": -1, "min_p": 0.25, "typical_p": 0.75, "repetition_penalty": 1.5, "presence_penalty": -1,
    "frequency_penalty": 2, "logit_bias": {"7": -100, "12": 1.5}, "seed": -9223372036854775808, "stop": ["a", "b"],
    "stop_token_ids": [3, 4], "include_stop_str_in_output": true, "ignore_eos": true, "skip_special_tokens": false,
    "add_special_tokens": false, "stream": true, "stream_options": {"include_usage": true}, "echo": true,
    "return_token_ids": true, "priority": "batch", "request_id": "r-1", "timeout": 1.5, "user": "u"})");
  const CompletionRequest& request = parsed.request;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.request_id, "r-1");
  EXPECT_EQ(request.max_tokens, 5);
  EXPECT_EQ(request.min_tokens, 2);
  EXPECT_EQ(request.n, 3);
  EXPECT_EQ(parsed.choices, 3);
  EXPECT_EQ(request.temperature, 0.5);
  EXPECT_EQ(request.top_p, 1.0);
  EXPECT_EQ(request.top_k, -1);
  EXPECT_EQ(request.min_p, 0.25);
  EXPECT_EQ(request.typical_p, 0.75);
  EXPECT_EQ(request.repetition_penalty, 1.5);
  EXPECT_EQ(request.presence_penalty, -1.0);
  EXPECT_EQ(request.frequency_penalty, 2.0);
  EXPECT_THAT(request.logit_bias, testing::UnorderedElementsAre(Pair(7, -100.0), Pair(12, 1.5)));
  EXPECT_EQ(request.seed, std::numeric_limits<std::int64_t>::min());
  EXPECT_THAT(request.stop, ElementsAre("a", "b"));
  EXPECT_THAT(request.stop_token_ids, ElementsAre(3, 4));
  EXPECT_TRUE(request.include_stop_string);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_FALSE(request.skip_special_tokens);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_EQ(request.priority, PriorityClass::kBatch);
  EXPECT_EQ(request.timeout, Duration(std::chrono::milliseconds(1500)));
  EXPECT_FALSE(request.top_logprobs.has_value());
  EXPECT_TRUE(parsed.answer.stream);
  EXPECT_TRUE(parsed.answer.include_usage);
  EXPECT_TRUE(parsed.answer.echo);
  EXPECT_TRUE(parsed.answer.return_token_ids);
  EXPECT_TRUE(parsed.ignored_fields.empty());
}

TEST(ParseCompletion, NullIsAbsent) {
  const ParsedCompletion parsed =
      Accept(Api::kCompletions, R"({"prompt": "x", "max_tokens": null, "stop": null,
    "suffix": null, "stream": null, "logit_bias": null, "temperature": null, "logprobs": null, "n": null})");
  EXPECT_FALSE(parsed.request.max_tokens.has_value());
  EXPECT_FALSE(parsed.answer.stream);
  EXPECT_EQ(parsed.choices, 1);
}

TEST(ParseCompletion, PromptShapes) {
  EXPECT_EQ(Accept(Api::kCompletions, R"({"prompt": ""})").prompts.size(), 1u);
  const ParsedCompletion texts = Accept(Api::kCompletions, R"({"prompt": ["a", "b"]})");
  ASSERT_EQ(texts.prompts.size(), 2u);
  EXPECT_EQ(std::get<std::string>(texts.prompts[1]), "b");
  const ParsedCompletion ids = Accept(Api::kCompletions, R"({"prompt": [5, 0, 2147483647]})");
  ASSERT_EQ(ids.prompts.size(), 1u);
  EXPECT_THAT(std::get<std::vector<TokenId>>(ids.prompts[0]), ElementsAre(5, 0, 2147483647));
  const ParsedCompletion lists = Accept(Api::kCompletions, R"({"prompt": [[1, 2], []]})");
  ASSERT_EQ(lists.prompts.size(), 2u);
  EXPECT_TRUE(std::get<std::vector<TokenId>>(lists.prompts[1]).empty());
}

TEST(ParseCompletion, PromptMistakes) {
  const auto message = [](std::string_view prompt) {
    return Refuse(Api::kCompletions, R"({"prompt": )" + std::string(prompt) + "}").message;
  };
  EXPECT_THAT(Refuse(Api::kCompletions, "{}").message, HasSubstr("prompt is required"));
  EXPECT_THAT(message("[]"), HasSubstr("prompt must not be an empty array"));
  EXPECT_THAT(message("7"), HasSubstr("prompt must be a string"));
  EXPECT_THAT(message(R"([1, "a"])"),
              HasSubstr("prompt[1] must be a token id from 0 to 2147483647, got \"a\""));
  EXPECT_THAT(message(R"(["a", 1])"), HasSubstr("prompt[1] must be a string or an array"));
  EXPECT_THAT(message("[-1]"), HasSubstr("prompt[0]"));
  EXPECT_THAT(message("[2147483648]"), HasSubstr("got 2147483648"));
  EXPECT_THAT(message("[[1], [1.5]]"), HasSubstr("prompt[1][0]"));
  EXPECT_THAT(
      Refuse(Api::kCompletions, R"({"prompt": ["a", "b", "c"]})", {.json = {}, .max_prompts = 2}).message,
      HasSubstr("at most 2 prompts, got 3"));
}

// The numbers that other servers wrapped, truncated or crashed on.
TEST(ParseCompletion, IntegersAreExact) {
  for (const std::string field : {"max_tokens", "min_tokens", "n", "top_k", "seed", "logprobs", "best_of"}) {
    for (const std::string value :
         {"3.7", "3.0", "\"5\"", "true", "9223372036854775808", "18446744073709551616", "1e308", "-1e3", "[]",
          "{}", "-9223372036854775809"}) {
      const HttpError error = Refuse(Api::kCompletions, With("\"" + field + "\": " + value));
      EXPECT_EQ(error.param, field) << value;
      EXPECT_THAT(error.message, HasSubstr(field + " must be an integer of at most 9223372036854775807"))
          << value;
    }
  }
  EXPECT_EQ(Accept(Api::kCompletions, With(R"("max_tokens": -1)")).request.max_tokens,
            -1);  // the service refuses it
  EXPECT_EQ(Accept(Api::kCompletions, With(R"("max_tokens": 9223372036854775807)")).request.max_tokens,
            std::numeric_limits<std::int64_t>::max());
}

TEST(ParseCompletion, OtherTypesAreExactToo) {
  for (const std::string field :
       {"stream", "echo", "ignore_eos", "skip_special_tokens", "return_token_ids", "return_timeline"}) {
    for (const std::string value : {"1", "\"true\"", "[]"}) {
      EXPECT_EQ(Refuse(Api::kCompletions, With("\"" + field + "\": " + value)).param, field);
    }
  }
  for (const std::string field : {"temperature", "top_p", "min_p", "repetition_penalty", "timeout"}) {
    for (const std::string value : {"\"1\"", "true", "{}"}) {
      EXPECT_EQ(Refuse(Api::kCompletions, With("\"" + field + "\": " + value)).param, field);
    }
  }
  for (const std::string field : {"model", "request_id", "priority"}) {
    EXPECT_EQ(Refuse(Api::kCompletions, With("\"" + field + "\": 5")).param, field);
  }
}

TEST(ParseCompletion, StopStrings) {
  EXPECT_THAT(Accept(Api::kCompletions, With(R"("stop": "x")")).request.stop, ElementsAre("x"));
  EXPECT_TRUE(Accept(Api::kCompletions, With(R"("stop": [])")).request.stop.empty());
  EXPECT_THAT(Refuse(Api::kCompletions, With(R"("stop": ["a", 1])")).message,
              HasSubstr("stop[1] must be a string"));
}

TEST(ParseCompletion, RefusesByNameWhatItCannotHonour) {
  for (const std::string field :
       {R"("suffix": "x")", R"("best_of": 2)", R"("use_beam_search": true)", R"("prompt_logprobs": 1)",
        R"("guided_json": {})", R"("guided_regex": "a")", R"("structured_outputs": {})",
        R"("bad_words": ["x"])", R"("truncate_prompt_tokens": 5)", R"("length_penalty": 0.5)"}) {
    const HttpError error = Refuse(Api::kCompletions, With(field));
    EXPECT_EQ(error.param, field.substr(1, error.param.size()));
    EXPECT_FALSE(error.param.empty()) << field;
  }
  EXPECT_THAT(Refuse(Api::kCompletions, With(R"("echo": true, "logprobs": 1)")).message, HasSubstr("echo"));
  EXPECT_THAT(Refuse(Api::kCompletions, With(R"("stream_options": {"include_usage": true})")).message,
              HasSubstr("needs \"stream\": true"));
  // The values that ask for nothing pass.
  Accept(Api::kCompletions, With(R"("suffix": "", "best_of": 1, "use_beam_search": false, "length_penalty": 1,
                                     "bad_words": [], "response_format": {"type": "text"})"));
}

TEST(ParseCompletion, StructuredOutputIsRefusedByItsName) {
  for (const std::string type : {"json_object", "json_schema", "structural_tag"}) {
    const HttpError error = Refuse(Api::kChat, ChatWith(R"("response_format": {"type": ")" + type + R"("})"));
    EXPECT_EQ(error.param, "response_format.type");
    EXPECT_THAT(error.message, HasSubstr(type));
  }
}

TEST(ParseCompletion, UnknownFieldsAreReportedOrRefused) {
  const ParsedCompletion parsed =
      Accept(Api::kCompletions, With(R"("max_token": 4, "stream": true, "stream_options": {"usage": true})"));
  EXPECT_THAT(parsed.ignored_fields, ElementsAre("stream_options.usage", "max_token"));
  ParseOptions strict;
  strict.strict = true;
  EXPECT_THAT(Refuse(Api::kCompletions, With(R"("max_token": 4)"), strict).message,
              HasSubstr("max_token is not a known field"));
  Accept(Api::kCompletions, With(R"("user": "u", "metadata": {})"), strict);
}

TEST(ParseCompletion, RequestIdsAndPrioritiesAreChecked) {
  EXPECT_EQ(Refuse(Api::kCompletions, With(R"("request_id": "a b")")).param, "request_id");
  EXPECT_EQ(Refuse(Api::kCompletions, With(R"("request_id": "a\r\nX: 1")")).param, "request_id");
  EXPECT_EQ(Refuse(Api::kCompletions, With(R"("priority": "high")")).param, "priority");
  for (const std::string value : {"0", "-1", "1e10"}) {
    EXPECT_EQ(Refuse(Api::kCompletions, With(R"("timeout": )" + value)).param, "timeout");
  }
  EXPECT_EQ(Refuse(Api::kCompletions, With(R"("logit_bias": {"x": 1})")).param, "logit_bias");
  EXPECT_EQ(Refuse(Api::kCompletions, With(R"("logit_bias": {"1": "x"})")).param, "logit_bias");
  EXPECT_THAT(Refuse(Api::kCompletions, "[1]").message, HasSubstr("must be a JSON object"));
}

json ChatVariables(std::string_view body) {
  const ParsedCompletion parsed = Accept(Api::kChat, body);
  return parsed.prompts.empty() ? json()
                                : json::parse(std::get<ChatPrompt>(parsed.prompts[0]).variables.dump());
}

// What is inside of them is checked where they are rendered (chat_messages_test.cc).
TEST(ParseChat, MessagesReachTheTemplateAsTheyCame) {
  const std::string messages = R"([
    {"role": "developer", "content": "rules"},
    {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1]}"}}]}, 5])";
  json expected = {{"add_generation_prompt", true}};
  expected["messages"] = json::parse(messages);
  EXPECT_EQ(ChatVariables(R"({"messages": )" + messages + "}"), expected);
}

TEST(ParseChat, KeysKeepTheirOrder) {
  const ParsedCompletion parsed = Accept(
      Api::kChat, ChatWith(R"("tools": [{"type": "function", "function": {"name": "z", "a": 1, "b": 2}}])"));
  EXPECT_THAT(std::get<ChatPrompt>(parsed.prompts[0]).variables.dump(),
              HasSubstr(R"([{"type":"function","function":{"name":"z","a":1,"b":2}}])"));
}

TEST(ParseChat, ThereMustBeMessages) {
  const auto message = [](const std::string& messages) {
    return Refuse(Api::kChat, R"({"messages": )" + messages + "}").message;
  };
  EXPECT_THAT(Refuse(Api::kChat, "{}").message, HasSubstr("messages"));
  EXPECT_THAT(message("[]"), HasSubstr("messages must hold at least one message"));
  EXPECT_THAT(message(R"("hi")"), HasSubstr("messages must be an array"));
}

TEST(ParseChat, ToolsReachTheTemplateUnlessTheyMayNotBeCalled) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  EXPECT_EQ(ChatVariables(ChatWith(tools))["tools"].size(), 1u);
  EXPECT_EQ(ChatVariables(ChatWith(tools + R"(, "tool_choice": "auto")"))["tools"].size(), 1u);
  EXPECT_TRUE(ChatVariables(ChatWith(tools + R"(, "tool_choice": "none")"))["tools"].is_null());
  EXPECT_TRUE(ChatVariables(ChatWith(R"("tools": [])"))["tools"].is_null());
  for (const std::string choice :
       {R"("required")", R"({"type": "function", "function": {"name": "f"}})", R"("any")"}) {
    EXPECT_EQ(Refuse(Api::kChat, ChatWith(tools + R"(, "tool_choice": )" + choice)).param, "tool_choice");
  }
  EXPECT_EQ(Refuse(Api::kChat, ChatWith(R"("tools": [{"type": "function"}])")).param, "tools[0]");
}

TEST(ParseChat, TemplateSwitches) {
  json variables = ChatVariables(ChatWith(R"("continue_final_message": true)"));
  EXPECT_EQ(variables["add_generation_prompt"], false);
  EXPECT_EQ(variables["continue_final_message"], true);
  EXPECT_EQ(ChatVariables(ChatWith(R"("add_generation_prompt": false)"))["add_generation_prompt"], false);
  variables = ChatVariables(ChatWith(R"("chat_template_kwargs": {"enable_thinking": false})"));
  EXPECT_EQ(variables["enable_thinking"], false);
  EXPECT_EQ(
      Refuse(Api::kChat, ChatWith(R"("continue_final_message": true, "add_generation_prompt": true)")).param,
      "continue_final_message");
  // These would be rendered as trusted text, or replace what was checked.
  for (const std::string name : {"bos_token", "eos_token", "messages", "tools"}) {
    EXPECT_EQ(Refuse(Api::kChat, ChatWith(R"("chat_template_kwargs": {")" + name + R"(": "x"})")).param,
              "chat_template_kwargs." + name);
  }
  EXPECT_EQ(Refuse(Api::kChat, ChatWith(R"("chat_template": "{{ x }}")")).param, "chat_template");
}

TEST(ParseChat, TemplateVariablesAreFew) {
  const auto with_arguments = [](int count) {
    std::string arguments;
    for (int i = 0; i < count; ++i) arguments += (i > 0 ? ",\"v" : "\"v") + std::to_string(i) + "\": 1";
    return ChatWith(R"("chat_template_kwargs": {)" + arguments + "}");
  };
  EXPECT_EQ(ChatVariables(with_arguments(62)).size(), 64u);  // messages and add_generation_prompt are two
  const HttpError refused = Refuse(Api::kChat, with_arguments(63));
  EXPECT_EQ(refused.param, "chat_template_kwargs");
  EXPECT_THAT(refused.message, HasSubstr("at most 62 members, got 63"));
}

TEST(ParseChat, ObjectsThatWouldCostTheSquareOfTheirSizeAreRefused) {
  std::string members = "\"role\":\"user\"";
  for (int i = 0; i < 800'000; ++i) members += ",\"" + std::to_string(i) + "\":0";
  EXPECT_THAT(Refuse(Api::kChat, ChatWith(R"("chat_template_kwargs": {)" + members + "}")).message,
              HasSubstr("more than 2048 members"));
  EXPECT_THAT(Refuse(Api::kChat, R"({"messages": [{)" + members + "}]}").message,
              HasSubstr("more than 2048 members"));
  EXPECT_THAT(Refuse(Api::kCompletions, R"({"prompt": "x", "logit_bias": {)" + members + "}}").message,
              HasSubstr("more than 2048 members"));
}

TEST(ParseCompletion, BothNamesOfTheLength) {
  for (const auto& [api, with] : {std::pair(Api::kChat, &ChatWith), std::pair(Api::kCompletions, &With)}) {
    EXPECT_EQ(Accept(api, with(R"("max_completion_tokens": 7)")).request.max_tokens, 7);
    EXPECT_EQ(Accept(api, with(R"("max_completion_tokens": 7, "max_tokens": 7)")).request.max_tokens, 7);
    EXPECT_TRUE(Accept(api, with(R"("max_completion_tokens": 7)")).ignored_fields.empty());
    const HttpError refused = Refuse(api, with(R"("max_completion_tokens": 7, "max_tokens": 8)"));
    EXPECT_EQ(refused.param, "max_completion_tokens");
    EXPECT_THAT(refused.message, HasSubstr("must equal max_tokens = 8 where both are given, got 7"));
  }
}

TEST(ParseCompletion, TheCacheSalt) {
  EXPECT_EQ(Accept(Api::kChat, ChatWith(R"("cache_salt": "s")")).request.cache_salt, "s");
  EXPECT_EQ(Accept(Api::kCompletions, With(R"("cache_salt": "s")")).request.cache_salt, "s");
  EXPECT_EQ(Accept(Api::kCompletions, With(R"("cache_salt": null)")).request.cache_salt, "");
  EXPECT_EQ(Refuse(Api::kCompletions, With(R"("cache_salt": "")")).param, "cache_salt");
  EXPECT_EQ(Refuse(Api::kCompletions, With(R"("cache_salt": 5)")).param, "cache_salt");
}

TEST(ParseChat, Logprobs) {
  EXPECT_EQ(Accept(Api::kChat, ChatWith(R"("logprobs": true)")).request.top_logprobs, 0);
  EXPECT_EQ(Accept(Api::kChat, ChatWith(R"("logprobs": true, "top_logprobs": 3)")).request.top_logprobs, 3);
  EXPECT_EQ(Accept(Api::kChat, ChatWith(R"("logprobs": false, "top_logprobs": 0)")).request.top_logprobs,
            std::nullopt);
  EXPECT_EQ(Refuse(Api::kChat, ChatWith(R"("top_logprobs": 3)")).param, "top_logprobs");
  EXPECT_EQ(Refuse(Api::kChat, ChatWith(R"("logprobs": 3)")).param, "logprobs");
  EXPECT_FALSE(Accept(Api::kChat, ChatWith(R"("n": 1)")).request.add_special_tokens);
}

TEST(ParseTokenize, PromptOrMessages) {
  Parsed<ParsedTokenize> text = ParseTokenize(R"({"prompt": "x", "return_token_strs": true})", {});
  ASSERT_TRUE(std::holds_alternative<ParsedTokenize>(text));
  EXPECT_TRUE(std::get<ParsedTokenize>(text).add_special_tokens);
  EXPECT_FALSE(std::get<ParsedTokenize>(text).parse_special);
  Parsed<ParsedTokenize> chat = ParseTokenize(R"({"messages": [{"role": "user", "content": "x"}]})", {});
  ASSERT_TRUE(std::holds_alternative<ParsedTokenize>(chat));
  EXPECT_FALSE(std::get<ParsedTokenize>(chat).add_special_tokens);
  for (const std::string_view body : {"{}", R"({"prompt": 5})", R"({"prompt": "x", "messages": [{}]})"}) {
    EXPECT_TRUE(std::holds_alternative<HttpError>(ParseTokenize(body, {}))) << body;
  }
}

TEST(ParseDetokenize, TokensAreRequired) {
  EXPECT_TRUE(std::holds_alternative<ParsedDetokenize>(ParseDetokenize(R"({"tokens": [1, 2]})", {})));
  for (const std::string_view body : {"{}", R"({"tokens": "x"})", R"({"tokens": [1.5]})"}) {
    EXPECT_TRUE(std::holds_alternative<HttpError>(ParseDetokenize(body, {}))) << body;
  }
}

}  // namespace
}  // namespace skipjack::http
