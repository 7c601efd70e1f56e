// Streams: their chunks, their errors, keep-alive comments, clients that are slow or many.
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/unit/serve/http/server_fixture.h"

namespace skipjack::http {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class StreamTest : public ServerTest {
 protected:
  static json Data(const std::optional<std::string>& event) {
    if (!event || !event->starts_with("data: ")) {
      ADD_FAILURE() << "no data event: " << event.value_or("(end)");
      return {};
    }
    return json::parse(event->substr(6));
  }

  static json Chunk(std::string_view choices, std::string_view rest = "") {
    return json::parse(
        R"({"id": "chatcmpl-r", "object": "chat.completion.chunk", "created": 1700000000, "model": "tiny",
                           "choices": )" +
        std::string(choices) + std::string(rest) + "}");
  }
};

constexpr std::string_view kChat =
    R"({"messages": [{"role": "user", "content": "x"}], "stream": true, "request_id": "r")";

TEST_F(StreamTest, ChatChunks) {
  StartServer();
  const auto client = Connect();
  client->Post("/v1/chat/completions", std::string(kChat) + "}");
  const auto call = service.TakeCall();
  call->Accept();

  // Head and role come before any token.
  const Reply head = client->ReadHead();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.fields.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(head.fields.at("cache-control"), "no-cache");
  EXPECT_EQ(head.fields.at("x-accel-buffering"), "no");
  EXPECT_EQ(head.fields.at("x-request-id"), "r");
  EXPECT_EQ(Data(client->ReadEvent()), Chunk(R"([{"index": 0, "delta": {"role": "assistant", "content": ""},
                                                  "logprobs": null, "finish_reason": null}])"));
  call->Text("Hi");
  EXPECT_EQ(Data(client->ReadEvent()),
            Chunk(R"([{"index": 0, "delta": {"content": "Hi"}, "logprobs": null, "finish_reason": null}])"));
  call->Delta({.choice = 0, .text = "", .tokens = {}});  // shows nothing, so it sends nothing
  call->Text("!");
  EXPECT_EQ(Data(client->ReadEvent())["choices"][0]["delta"]["content"], "!");
  call->Finish();
  call->Complete();
  EXPECT_EQ(
      Data(client->ReadEvent()),
      Chunk(R"([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": "stop", "stop_reason": null}])",
            R"(, "timings": {"queue_seconds": 0.25, "prefill_seconds": 0.5, "decode_seconds": 1.5,
                                   "cached_tokens": 2, "preemptions": 1})"));
  EXPECT_EQ(client->ReadEvent(), "data: [DONE]");
  EXPECT_EQ(client->ReadEvent(), std::nullopt);

  client->Get("/health/live");  // the connection lives on
  EXPECT_EQ(client->ReadReply().status, 200);
}

TEST_F(StreamTest, TheTimelineComesWithTheTimings) {
  StartServer();
  for (const bool usage : {false, true}) {
    const auto client = Connect();
    client->Post("/v1/chat/completions",
                 std::string(kChat) + R"(, "return_timeline": true)" +
                     (usage ? R"(, "stream_options": {"include_usage": true}})" : "}"));
    const auto call = service.TakeCall();
    call->Accept();
    call->Finish();
    Completed completed;
    completed.timelines.push_back({0, std::make_shared<Timeline>()});
    call->Complete(std::move(completed));
    client->ReadHead();
    for (int i = 0; i < (usage ? 2 : 1); ++i) EXPECT_FALSE(Data(client->ReadEvent()).contains("timeline"));
    const json last = Data(client->ReadEvent());
    EXPECT_TRUE(last.contains("timings"));
    EXPECT_EQ(last["timeline"], json::parse(R"([{"index": 0, "events": [], "left_out": 0}])"));
    EXPECT_EQ(client->ReadEvent(), "data: [DONE]");
  }
}

TEST_F(StreamTest, UsageChunkComesLast) {
  StartServer();
  const auto client = Connect();
  client->Post("/v1/chat/completions",
               std::string(kChat) + R"(, "stream_options": {"include_usage": true}})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Text("Hi");
  call->Finish();
  call->Complete();
  client->ReadHead();
  for (int i = 0; i < 3; ++i) {  // role, text, finish
    const json chunk = Data(client->ReadEvent());
    EXPECT_TRUE(chunk.contains("usage") && chunk["usage"].is_null()) << chunk;
    EXPECT_FALSE(chunk.contains("timings"));
  }
  EXPECT_EQ(Data(client->ReadEvent()),
            Chunk("[]", R"(, "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4,
                                       "prompt_tokens_details": {"cached_tokens": 2}},
                             "timings": {"queue_seconds": 0.25, "prefill_seconds": 0.5, "decode_seconds": 1.5,
                                         "cached_tokens": 2, "preemptions": 1})"));
  EXPECT_EQ(client->ReadEvent(), "data: [DONE]");
}

TEST_F(StreamTest, ContinuousUsageCountsUp) {
  StartServer();
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x", "stream": true,
                                      "stream_options": {"include_usage": true, "continuous_usage_stats": true}})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Text("a");
  call->Text("b");
  call->Finish();
  call->Complete();
  client->ReadHead();
  for (const int tokens : {1, 2, 2}) {
    EXPECT_EQ(Data(client->ReadEvent())["usage"]["completion_tokens"], tokens);
  }
}

TEST_F(StreamTest, TokenIdsWhereVllmPutsThem) {
  StartServer();
  const auto client = Connect();
  client->Post("/v1/chat/completions", std::string(kChat) + R"(, "return_token_ids": true})");
  auto call = service.TakeCall();
  call->Accept({7, 8});
  call->Text("Hi");
  call->Finish();
  call->Complete();
  client->ReadHead();
  EXPECT_EQ(Data(client->ReadEvent())["prompt_token_ids"],
            json({7, 8}));  // beside the choices, first chunk only
  json chunk = Data(client->ReadEvent());
  EXPECT_EQ(chunk["choices"][0]["token_ids"], json({101}));
  EXPECT_FALSE(chunk.contains("prompt_token_ids"));
  EXPECT_EQ(Data(client->ReadEvent())["choices"][0]["token_ids"], json::array());
  EXPECT_EQ(client->ReadEvent(), "data: [DONE]");
  EXPECT_EQ(client->ReadEvent(), std::nullopt);

  client->Post("/v1/completions",
               R"({"prompt": "x", "stream": true, "return_token_ids": true, "logprobs": 0})");
  call = service.TakeCall();
  call->Accept({7, 8});
  call->Text("Hi");
  call->Text("!");
  call->Finish();
  call->Complete();
  client->ReadHead();
  chunk = Data(client->ReadEvent());
  EXPECT_EQ(chunk["choices"][0]["prompt_token_ids"], json({7, 8}));  // inside the choice
  EXPECT_EQ(chunk["choices"][0]["token_ids"], json({101}));
  EXPECT_EQ(chunk["choices"][0]["logprobs"]["text_offset"], json({0}));
  chunk = Data(client->ReadEvent());
  EXPECT_FALSE(chunk["choices"][0].contains("prompt_token_ids"));
  EXPECT_EQ(chunk["choices"][0]["logprobs"]["text_offset"], json({2}));
  EXPECT_EQ(Data(client->ReadEvent())["choices"][0]["logprobs"]["tokens"], json::array());
}

TEST_F(StreamTest, EchoAndSeveralPrompts) {
  StartServer();
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": ["a", "b"], "stream": true, "echo": true})");
  const auto first = service.TakeCall();
  const auto second = service.TakeCall();
  second->Accept();
  second->Text("B");
  first->Accept();
  client->ReadHead();
  std::vector<std::string> texts(2);
  for (int i = 0; i < 3; ++i) {
    const json chunk = Data(client->ReadEvent());
    texts[chunk["choices"][0]["index"].get<std::size_t>()] += chunk["choices"][0]["text"].get<std::string>();
  }
  EXPECT_THAT(texts, testing::ElementsAre("a", "bB"));
  second->Finish();
  EXPECT_EQ(Data(client->ReadEvent())["choices"][0]["index"], 1);
  second->Complete();
  first->Finish();
  first->Complete();
  const json last = Data(client->ReadEvent());
  EXPECT_EQ(last["choices"][0]["index"], 0);
  EXPECT_TRUE(last.contains("timings"));
  EXPECT_EQ(client->ReadEvent(), "data: [DONE]");
}

TEST_F(StreamTest, AFailureInTheStreamIsAnErrorEvent) {
  StartServer();
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Text("a");
  call->Fail(Status::DeadlineExceeded("the request's time is over"));
  client->ReadHead();
  EXPECT_EQ(Data(client->ReadEvent())["choices"][0]["text"], "a");
  const std::string event = client->ReadEvent().value_or("");
  ASSERT_TRUE(event.starts_with("event: error\ndata: ")) << event;
  const json error = json::parse(event.substr(19));
  EXPECT_EQ(error["error"]["type"], "timeout_error");
  EXPECT_EQ(client->ReadEvent(), std::nullopt);  // no [DONE]
  client->Get("/health/live");
  EXPECT_EQ(client->ReadReply().status, 200);
}

TEST_F(StreamTest, SilenceIsFilledWithComments) {
  options.keep_alive_interval = std::chrono::milliseconds(20);
  StartServer();
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  const auto call = service.TakeCall();
  call->Accept();
  client->ReadHead();
  EXPECT_EQ(client->ReadEvent(), ": keep-alive");
  EXPECT_EQ(client->ReadEvent(), ": keep-alive");
  call->Text("a");
  std::optional<std::string> event = client->ReadEvent();
  while (event == ": keep-alive") event = client->ReadEvent();
  EXPECT_EQ(Data(event)["choices"][0]["text"], "a");
}

TEST_F(StreamTest, Http10StreamsUntilTheConnectionCloses) {
  StartServer();
  const auto client = Connect();
  const std::string body = R"({"prompt": "x", "stream": true})";
  client->Send("POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\nConnection: keep-alive\r\n\r\n" + body);
  const auto call = service.TakeCall();
  call->Accept();
  call->Text("a");
  call->Finish();
  call->Complete();
  const Reply reply = client->ReadReply();
  EXPECT_EQ(reply.fields.at("connection"), "close");
  EXPECT_FALSE(reply.fields.contains("content-length"));
  EXPECT_TRUE(reply.body.ends_with("data: [DONE]\n\n")) << reply.body;
}

// The client never reads. What waits for it may not grow beyond the limit; its call is cancelled.
TEST_F(StreamTest, ASlowReaderIsCutOff) {
  options.max_stream_bytes = 64 << 10;
  options.send_buffer_bytes = 8 << 10;
  StartServer();
  const auto slow = Connect(4096);
  slow->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  const auto call = service.TakeCall();
  call->Accept();
  const std::string text(4096, 'x');
  for (int i = 0; i < 5000 && !call->cancelled(); ++i) call->Text(text);
  EXPECT_THAT(call->AwaitCancel().message(), HasSubstr("slowly"));
  EXPECT_EQ(Get("/health/live").status, 200);
  EXPECT_EQ(server->Stats().streams_cut, 1u);
  EXPECT_EQ(server->Stats().open_streams, 0);
}

TEST_F(StreamTest, AReaderThatStopsIsCutOffInTheEnd) {
  options.send_buffer_bytes = 8 << 10;
  options.write_timeout = std::chrono::milliseconds(50);
  StartServer();
  const auto slow = Connect(4096);
  slow->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  const auto call = service.TakeCall();
  call->Accept();
  for (int i = 0; i < 100; ++i) call->Text(std::string(4096, 'x'));  // below max_stream_bytes
  EXPECT_FALSE(call->AwaitCancel().ok());
  EXPECT_EQ(server->Stats().streams_cut, 1u);
}

std::size_t Threads() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                                std::filesystem::directory_iterator()));
}

// Clients and server live in one process: two descriptors a stream.
void AllowManyDescriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(StreamTest, FiveHundredStreamsAtOnce) {
  AllowManyDescriptors();
  StartServer();
  const std::size_t threads_before = Threads();
  constexpr int kStreams = 500;
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<std::shared_ptr<FakeCall>> calls;
  for (int i = 0; i < kStreams; ++i) {
    clients.push_back(Connect());
    clients.back()->Post("/v1/completions",
                         R"({"prompt": "x", "stream": true, "request_id": ")" + std::to_string(i) + "\"}");
    calls.push_back(service.TakeCall());
    calls.back()->Accept();
  }
  for (const auto& client : clients) client->ReadHead();
  EXPECT_EQ(server->Stats().open_streams, kStreams);
  EXPECT_EQ(Threads(), threads_before);

  constexpr int kTokens = 8;
  for (int token = 0; token < kTokens; ++token) {
    for (const auto& call : calls) call->Text(call->request.request_id + "." + std::to_string(token) + " ");
  }
  for (const auto& call : calls) {
    call->Finish();
    call->Complete();
  }
  for (int i = 0; i < kStreams; ++i) {
    std::string text;
    std::string expected;
    for (int token = 0; token < kTokens; ++token) {
      text += Data(clients[i]->ReadEvent())["choices"][0]["text"];
      expected += std::to_string(i) + "." + std::to_string(token) + " ";
    }
    EXPECT_EQ(text, expected);
    EXPECT_EQ(Data(clients[i]->ReadEvent())["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(clients[i]->ReadEvent(), "data: [DONE]");
  }
}

// Streams whose clients leave at any moment, while events keep coming from another thread.
TEST_F(StreamTest, ClientsLeaveAtAnyMoment) {
  StartServer();
  service.AnswerWith([](const std::shared_ptr<FakeCall>& call) {
    call->Accept();
    for (int i = 0; i < 20; ++i) call->Text("token ");
    call->Finish();
    call->Complete();
  });
  for (int i = 0; i < 200; ++i) {
    const auto client = Connect();
    client->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
    if (i % 4 == 1) client->ReadHead();
    if (i % 4 == 2) client->Reset();
    if (i % 4 == 3) {
      client->ReadHead();
      client->ReadEvent();
      client->Reset();
    }
  }
  EXPECT_EQ(Get("/health/live").status, 200);
}

}  // namespace
}  // namespace skipjack::http
