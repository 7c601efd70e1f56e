// The same chat gives the same prompt, whichever protocol it comes by; and what one refuses the other
// refuses.
#include <memory>
#include <string>
#include <vector>

#include "serve/http/http_server.h"
#include "tests/unit/serve/grpc/grpc_fixture.h"
#include "tests/unit/serve/http/test_client.h"

namespace skipjack {
namespace {

using ::testing::HasSubstr;

// A chat as each protocol says it: the body of /v1/chat/completions, and the parts of v1.ChatPrompt.
struct Chat {
  struct Message {
    std::string role;
    std::string content;  // empty: not set
    std::string members_json;
  };
  const char* name;
  std::string http;
  std::vector<Message> messages;
  std::string variables_json;
};

// Shows everything that the fronts might differ in. The start token is the tokenizer's, not the template's.
constexpr char kShowAll[] =
    "{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ enable_thinking }}"
    "{% for m in messages %}[{{ m.role }}|{{ m.content }}|{{ m.name }}|{{ m.tool_call_id }}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}|{{ c.function.name }}{% for k in c.function.arguments "
    "%}"
    ",{{ k }}={{ c.function.arguments[k] }}{% endfor %}{% endfor %}{% endif %}]{% endfor %}";

class SamePromptTest : public testing::GrpcTest {
 protected:
  void SetUp() override {
    model_->chat_template = *ChatTemplate::Parse(kShowAll);
    model_->context_length = 100'000;
    StartServer();
    http_ = *HttpServer::Create({}, service());
    ASSERT_TRUE(http_->Bind().ok());
    ASSERT_TRUE(http_->Start().ok());
  }

  void TearDown() override {
    http_.reset();
    GrpcTest::TearDown();
  }

  static v1::ChatPrompt ToProto(const Chat& chat) {
    v1::ChatPrompt message;
    for (const Chat::Message& from : chat.messages) {
      v1::ChatMessage* to = message.add_messages();
      to->set_role(from.role);
      if (!from.content.empty()) to->set_content(from.content);
      to->set_members_json(from.members_json);
    }
    message.set_variables_json(chat.variables_json);
    return message;
  }

  std::string TakePrompt() {
    const SequenceId id = engine_->WaitForSequences(1)[0];
    std::string text;
    for (const TokenId token : engine_->RequestOf(id).prompt) {
      text += token < 256 ? std::string(1, static_cast<char>(token)) : "<" + std::to_string(token) + ">";
    }
    engine_->Finish(id, FinishReason::kLength);
    return text;
  }

  std::string OverHttp(const Chat& chat) {
    http::TestClient client(http_->port());
    client.Post("/v1/chat/completions", chat.http);
    const std::string prompt = TakePrompt();
    EXPECT_EQ(client.ReadReply().status, 200);
    return prompt;
  }

  std::string OverGrpc(const Chat& chat) {
    v1::GenerateRequest request;
    *request.mutable_chat() = ToProto(chat);
    const auto stream = Generate(request);
    const std::string prompt = TakePrompt();
    EXPECT_TRUE(stream->Drain().ok());
    return prompt;
  }

  std::vector<int> TokenizedOverHttp(const Chat& chat) {
    http::TestClient client(http_->port());
    client.Post("/tokenize", chat.http);
    return client.ReadReply().json()["tokens"];
  }

  std::vector<int> TokenizedOverGrpc(const Chat& chat) {
    v1::TokenizeRequest request;
    *request.mutable_chat() = ToProto(chat);
    v1::TokenizeResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(v1::Inference::NewStub(channel_)->Tokenize(&context, request, &response).ok());
    return {response.ids().begin(), response.ids().end()};
  }

  std::unique_ptr<HttpServer> http_;
};

std::vector<Chat> Chats() {
  return {
      {"plain", R"({"messages": [{"role": "user", "content": "hi"}]})", {{"user", "hi", ""}}, ""},
      {"parts of text",
       R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})",
       {{"user", "", R"({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})"}},
       ""},
      {"developer",
       R"({"messages": [{"role": "developer", "content": "rules"}, {"role": "user", "content": "x", "name": "ann"}]})",
       {{"developer", "rules", ""}, {"user", "x", R"({"name": "ann"})"}},
       ""},
      {"tool calls",
       R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "tool_calls":
          [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"y\": 1, \"x\": \"2\"}"}}]},
          {"role": "tool", "tool_call_id": "1", "content": "42"}]})",
       {{"user", "x", ""},
        {"assistant", "",
         R"({"content": null, "tool_calls": [{"id": "1", "type": "function",
             "function": {"name": "f", "arguments": "{\"y\": 1, \"x\": \"2\"}"}}]})"},
        {"tool", "42", R"({"tool_call_id": "1"})"}},
       ""},
      {"tools and variables",
       R"({"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"enable_thinking": false},
           "tools": [{"type": "function", "function": {"name": "f"}}], "documents": [{"text": "d"}]})",
       {{"user", "x", ""}},
       R"({"enable_thinking": false, "tools": [{"type": "function", "function": {"name": "f"}}],
           "documents": [{"text": "d"}]})"},
      {"no tools",
       R"({"messages": [{"role": "user", "content": "x"}], "tools": []})",
       {{"user", "x", ""}},
       R"({"tools": []})"},
      {"continued",
       R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "So: "}],
           "continue_final_message": true})",
       {{"user", "x", ""}, {"assistant", "So: ", ""}},
       R"({"continue_final_message": true})"},
  };
}

TEST_F(SamePromptTest, OfTheSameChat) {
  for (const Chat& chat : Chats()) {
    const std::string prompt = OverHttp(chat);
    EXPECT_EQ(OverGrpc(chat), prompt) << chat.name;
    EXPECT_FALSE(prompt.empty());
    const std::vector<int> ids = TokenizedOverHttp(chat);
    EXPECT_EQ(TokenizedOverGrpc(chat), ids) << chat.name;
    EXPECT_EQ(ids.size(), prompt.size()) << chat.name;  // no start token: it is the template's to write
  }
}

TEST_F(SamePromptTest, IsWhatTheTemplateWrote) {
  EXPECT_EQ(OverGrpc(Chats()[1]), "TrueTrueTrue[user|a\nb||]");
  EXPECT_EQ(OverGrpc(Chats()[3]), "TrueTrueTrue[user|x||][assistant|None|||f,y=1,x=2][tool|42||1]");
}

TEST_F(SamePromptTest, OfTheSameTextAndIds) {
  v1::GenerateRequest request = Prompt("hi");
  const auto stream = Generate(request);
  const std::string over_grpc = TakePrompt();
  EXPECT_TRUE(stream->Drain().ok());
  http::TestClient client(http_->port());
  client.Post("/v1/completions", R"({"prompt": "hi"})");
  EXPECT_EQ(TakePrompt(), over_grpc);
  EXPECT_EQ(client.ReadReply().status, 200);
  EXPECT_EQ(over_grpc, "<256>hi");
}

TEST_F(SamePromptTest, TheSameChatsAreRefused) {
  const std::vector<Chat> refused = {
      {"messages[0].content is required", R"({"messages": [{"role": "user"}]})", {{"user", "", ""}}, ""},
      {"messages[0].content[0].type must be",
       R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       {{"user", "", R"({"content": [{"type": "image_url"}]})"}},
       ""},
      {"messages[0].role must be", R"({"messages": [{"role": "", "content": "x"}]})", {{"", "x", ""}}, ""},
      {"messages[1].tool_calls[0].function.arguments",
       R"({"messages": [{"role": "user", "content": "x"},
           {"role": "assistant", "tool_calls": [{"function": {"arguments": "["}}]}]})",
       {{"user", "x", ""}, {"assistant", "", R"({"tool_calls": [{"function": {"arguments": "["}}]})"}},
       ""},
  };
  for (const Chat& chat : refused) {
    http::TestClient client(http_->port());
    client.Post("/v1/chat/completions", chat.http);
    const http::Reply reply = client.ReadReply();
    EXPECT_EQ(reply.status, 400);
    EXPECT_EQ(reply.json()["error"]["param"], "messages");
    const std::string message = reply.json()["error"]["message"];
    EXPECT_THAT(message, HasSubstr(chat.name));
    v1::GenerateRequest request;
    *request.mutable_chat() = ToProto(chat);
    const grpc::Status status = Generate(request)->Drain();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), message);
  }
}

}  // namespace
}  // namespace skipjack
