// HTTP itself: routes, methods, limits, malformed input, time limits, the server's life.
#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <gmock/gmock.h>

#include "tests/unit/serve/http/server_fixture.h"

namespace skipjack::http {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ProtocolTest : public ServerTest {};

TEST_F(ProtocolTest, SmallRoutes) {
  options.version = "1.2.3";
  options.metrics = [] { return std::string("up 1\n"); };
  StartServer();
  EXPECT_EQ(Get("/health/live").json(), json::parse(R"({"status": "live"})"));
  EXPECT_EQ(Get("/health/ready").status, 200);
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_EQ(Get("/version").json()["version"], "1.2.3");
  const Reply metrics = Get("/metrics?x=y");
  EXPECT_EQ(metrics.body, "up 1\n");
  EXPECT_THAT(metrics.fields.at("content-type"), HasSubstr("text/plain; version=0.0.4"));
  const json models = Get("/v1/models").json();
  EXPECT_EQ(models["object"], "list");
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][0]["max_model_len"], 2048);
  EXPECT_EQ(Get("/v1/models/tiny").json()["object"], "model");
  const Reply absent = Get("/v1/models/org%2Fabsent");
  EXPECT_EQ(absent.status, 404);
  EXPECT_EQ(absent.json()["error"]["code"], "model_not_found");
  EXPECT_THAT(absent.json()["error"]["message"].get<std::string>(), HasSubstr("org/absent"));
}

TEST_F(ProtocolTest, ReadinessIsTheServices) {
  StartServer();
  service.SetReady(Status::Unavailable("model 'tiny' is loading (40 %)"));
  const Reply reply = Get("/health/ready");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.json()["error"]["message"].get<std::string>(), HasSubstr("loading"));
  EXPECT_EQ(Get("/health/live").status, 200);
}

TEST_F(ProtocolTest, TokenizeAndDetokenize) {
  StartServer();
  EXPECT_EQ(
      Post("/tokenize", R"({"prompt": "Hi"})").json(),
      json::parse(R"({"count": 3, "max_model_len": 2048, "tokens": [1, 72, 105], "token_strs": null})"));
  EXPECT_EQ(Post("/tokenize", R"({"prompt": "é", "add_special_tokens": false, "return_token_strs": true})")
                .json()["token_strs"],
            json({"\xef\xbf\xbd", "\xef\xbf\xbd"}));
  EXPECT_EQ(Post("/tokenize", R"({"prompt": "", "parse_special": true})").json()["tokens"], json({1, 2}));
  EXPECT_GT(Post("/tokenize", R"({"messages": [{"role": "user", "content": "x"}]})").json()["count"], 10);
  EXPECT_EQ(Post("/detokenize", R"({"tokens": [72, 105]})").json(), json::parse(R"({"prompt": "<s>Hi"})"));
  EXPECT_EQ(Post("/detokenize", R"({"tokens": [72], "skip_special_tokens": true})").json()["prompt"], "H");
  EXPECT_EQ(Post("/detokenize", R"({"tokens": [256]})").status, 400);
  EXPECT_EQ(Post("/detokenize", R"({"tokens": [1], "model": "absent"})").status, 404);
  EXPECT_EQ(Post("/tokenize", R"({"prompt": "x", "model": "absent"})").status, 404);
  EXPECT_EQ(Post("/tokenize", R"({"promt": "x"})").status, 400);
  EXPECT_THAT(Post("/detokenize", R"({"tokens": [1], "x": 1})").fields.at("warning"), HasSubstr("x"));
}

TEST_F(ProtocolTest, UnknownPathsAndMethodsHaveJsonBodies) {
  StartServer();
  const auto client = Connect();
  client->Get("/v1/nope");
  const Reply absent = client->ReadReply();
  EXPECT_EQ(absent.status, 404);
  EXPECT_EQ(absent.json()["error"]["type"], "not_found_error");
  client->Get("/v1/completions");
  const Reply refused = client->ReadReply();
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.fields.at("allow"), "POST, OPTIONS");
  EXPECT_EQ(refused.json()["error"]["type"], "invalid_request_error");
  client->Send("DELETE /v1/models/tiny HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client->ReadReply().fields.at("allow"), "GET, HEAD, OPTIONS");
  client->Send("BREW /health HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client->ReadReply().status, 405);
}

TEST_F(ProtocolTest, HeadAndOptions) {
  StartServer();
  const auto client = Connect();
  client->Send("HEAD /health/live HTTP/1.1\r\nHost: h\r\n\r\n");
  const Reply head = client->ReadReply(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.fields.at("content-length"), std::to_string(Get("/health/live").body.size()));
  client->Send("OPTIONS /v1/completions HTTP/1.1\r\nHost: h\r\nOrigin: http://evil\r\n\r\n");
  const Reply preflight = client->ReadReply();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.fields.at("allow"), "POST, OPTIONS");
  EXPECT_FALSE(preflight.fields.contains("access-control-allow-origin"));
  EXPECT_FALSE(preflight.fields.contains("content-length"));
  client->Send("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client->ReadReply().status, 204);
}

TEST_F(ProtocolTest, HeadersThatMakeARequestUnacceptable) {
  StartServer();
  const auto status = [&](const std::string& request) {
    const auto client = Connect();
    client->Send(request);
    return client->ReadReply().status;
  };
  const std::string post = "POST /v1/completions HTTP/1.1\r\nHost: h\r\n";
  EXPECT_EQ(status("GET /health HTTP/1.1\r\n\r\n"), 400);  // no Host
  EXPECT_EQ(status("GET /health HTTP/1.0\r\n\r\n"), 200);
  EXPECT_EQ(status(post + "Content-Type: application/json\r\n\r\n"), 411);
  EXPECT_EQ(status(post + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"), 415);
  EXPECT_EQ(status(post + "Content-Length: 2\r\n\r\n{}"), 415);
  EXPECT_EQ(status(post +
                   "Content-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"),
            415);
  EXPECT_EQ(
      status(post + "Content-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
      501);
  EXPECT_EQ(status(post + "Content-Type: application/json\r\nExpect: magic\r\nContent-Length: 2\r\n\r\n{}"),
            417);
  EXPECT_EQ(status(post + "Content-Type: application/json; charset=utf-8\r\nContent-Length: 2\r\n\r\n{}"),
            400);  // read
  EXPECT_EQ(service.started(), 0u);
}

TEST_F(ProtocolTest, MalformedRequestsAreAnsweredAndTheConnectionCloses) {
  StartServer();
  for (const std::string& request :
       {std::string("nonsense\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),
        std::string("GET / HTTP/1.1\r\nHost h\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")}) {
    const auto client = Connect();
    client->Send(request);
    const Reply reply = client->ReadReply();
    EXPECT_EQ(reply.status, 400) << request;
    EXPECT_TRUE(reply.json().contains("error"));
    EXPECT_EQ(reply.fields.at("connection"), "close");
    EXPECT_TRUE(client->ReadEnd());
  }
  const auto client = Connect();
  client->Send("GET /" + std::string(40'000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client->ReadReply().status, 431);
}

TEST_F(ProtocolTest, OneByteAtATime) {
  StartServer();
  const auto client = Connect();
  for (const char byte : PostRequest("/v1/completions", R"({"prompt": "x"})"))
    client->Send(std::string(1, byte));
  auto call = service.TakeCall();
  call->Accept();
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().status, 200);

  // The same as chunks, on the same connection.
  std::string chunked =
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: "
      "chunked\r\n\r\n";
  for (const char byte : std::string(R"({"prompt": "y"})"))
    chunked += "1\r\n" + std::string(1, byte) + "\r\n";
  for (const char byte : chunked + "0\r\n\r\n") client->Send(std::string(1, byte));
  call = service.TakeCall();
  EXPECT_EQ(std::get<std::string>(call->request.prompt), "y");
  call->Accept();
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().status, 200);
}

TEST_F(ProtocolTest, PipelinedRequestsAreAnsweredInOrder) {
  StartServer();
  const auto client = Connect();
  std::string requests;
  for (int i = 0; i < 200; ++i)
    requests += "GET /v1/models/m" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n";
  client->Send(requests + PostRequest("/v1/completions", R"({"prompt": "a"})") +
               PostRequest("/v1/completions", R"({"prompt": "b"})") +
               "GET /version HTTP/1.1\r\nHost: h\r\n\r\n");
  for (int i = 0; i < 200; ++i) {
    EXPECT_THAT(client->ReadReply().body, HasSubstr("'m" + std::to_string(i) + "'"));
  }
  for (const std::string prompt : {"a", "b"}) {
    const auto call = service.TakeCall();
    EXPECT_EQ(std::get<std::string>(call->request.prompt), prompt);
    call->Accept();
    call->Text(prompt);
    call->Finish();
    call->Complete();
    EXPECT_EQ(client->ReadReply().json()["choices"][0]["text"], prompt);
  }
  EXPECT_EQ(client->ReadReply().status, 200);
}

TEST_F(ProtocolTest, ConnectionCloseIsHonoured) {
  StartServer();
  const auto client = Connect();
  client->Get("/health/live", "Connection: close\r\n");
  EXPECT_EQ(client->ReadReply().fields.at("connection"), "close");
  EXPECT_TRUE(client->ReadEnd());
}

TEST_F(ProtocolTest, LargeBodiesAreRefusedBeforeTheyArrive) {
  options.max_request_bytes = 1000;
  StartServer();
  const auto early = Connect();
  early->Send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: "
      "104857600\r\n\r\n");
  const Reply refused = early->ReadReply();
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.json()["error"]["message"].get<std::string>(),
              testing::AllOf(HasSubstr("104857600"), HasSubstr("1000")));
  EXPECT_TRUE(early->ReadEnd());

  // A client that sends everything first can still read the refusal.
  const auto stubborn = Connect();
  stubborn->Post("/v1/completions", std::string(3 << 20, 'x'));
  EXPECT_EQ(stubborn->ReadReply().status, 413);

  const auto chunked = Connect();
  chunked->Send(
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: "
      "chunked\r\n\r\n"
      "3e9\r\n" +
      std::string(1001, ' ') + "\r\n");
  EXPECT_EQ(chunked->ReadReply().status, 413);
  EXPECT_EQ(service.started(), 0u);
}

TEST_F(ProtocolTest, ExpectContinue) {
  options.max_request_bytes = 1000;
  StartServer();
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nExpect: "
      "100-continue\r\n";
  const auto client = Connect();
  client->Send(head + "Content-Length: 15\r\n\r\n");
  EXPECT_EQ(client->ReadReply().status, 100);
  client->Send(R"({"prompt": "x"})");
  const auto call = service.TakeCall();
  call->Accept();
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().status, 200);
  client->Send(head + "Content-Length: 1001\r\n\r\n");
  EXPECT_EQ(client->ReadReply().status, 413);  // instead of 100
}

TEST_F(ProtocolTest, SlowHeadsAndBodiesEnd) {
  options.header_timeout = std::chrono::milliseconds(50);
  options.body_timeout = std::chrono::milliseconds(50);
  StartServer();
  const auto head = Connect();
  head->Send("GET /health HTTP/1.1\r\nHo");
  EXPECT_EQ(head->ReadReply().status, 408);
  EXPECT_TRUE(head->ReadEnd());
  const auto body = Connect();
  body->Send(
      "POST /tokenize HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{");
  const Reply reply = body->ReadReply();
  EXPECT_EQ(reply.status, 408);
  EXPECT_THAT(reply.json()["error"]["message"].get<std::string>(), HasSubstr("body"));
  EXPECT_EQ(server->Stats().timeouts, 2u);
}

TEST_F(ProtocolTest, IdleConnectionsCloseSilently) {
  options.idle_timeout = std::chrono::milliseconds(50);
  StartServer();
  EXPECT_TRUE(Connect()->ReadEnd());
  const auto client = Connect();
  client->Get("/health/live");
  EXPECT_EQ(client->ReadReply().status, 200);
  EXPECT_TRUE(client->ReadEnd());
}

TEST_F(ProtocolTest, BeyondTheConnectionLimitOnlyHealthIsAnswered) {
  options.max_connections = 2;
  StartServer();
  const auto first = Connect();
  const auto second = Connect();
  for (const auto& client : {first.get(), second.get()}) {
    client->Get("/health/live");
    EXPECT_EQ(client->ReadReply().status, 200);
  }
  const auto third = Connect();
  third->Post("/v1/completions", R"({"prompt": "x"})");
  const Reply refused = third->ReadReply();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.fields.at("retry-after"), "1");
  EXPECT_THAT(refused.json()["error"]["message"].get<std::string>(), HasSubstr("connections"));
  EXPECT_TRUE(third->ReadEnd());
  const auto probe = Connect();
  probe->Get("/health/live");
  EXPECT_EQ(probe->ReadReply().status, 200);
  EXPECT_TRUE(probe->ReadEnd());
  EXPECT_GE(server->Stats().refused_connections, 2u);
  first->Get("/health/live");  // those within the limit go on
  EXPECT_EQ(first->ReadReply().status, 200);
}

TEST_F(ProtocolTest, RequestIdsAreEchoedOrMade) {
  StartServer();
  const auto client = Connect();
  client->Get("/health/live", "X-Request-Id: mine-1\r\n");
  EXPECT_EQ(client->ReadReply().fields.at("x-request-id"), "mine-1");
  client->Get("/health/live", "X-Request-Id: not usable\r\n");
  const std::string made = client->ReadReply().fields.at("x-request-id");
  EXPECT_EQ(made.size(), 32u);
  client->Get("/v1/nope");
  EXPECT_NE(client->ReadReply().fields.at("x-request-id"), made);
}

TEST_F(ProtocolTest, AccessHookAndStats) {
  std::mutex mutex;
  std::vector<std::string> lines;
  options.access = [&](const HttpAccess& access) {
    const std::lock_guard lock(mutex);
    lines.push_back(std::string(access.method) + " " + std::string(access.path) + " " +
                    std::to_string(access.status) + " " + std::string(access.request_id) +
                    (access.complete ? "" : " incomplete"));
    EXPECT_THAT(std::string(access.remote), HasSubstr("127.0.0.1:"));
  };
  StartServer();
  const auto client = Connect();
  client->Get("/health/live?secret=1", "X-Request-Id: a\r\n");
  client->ReadReply();
  client->Post("/v1/completions", "{", "X-Request-Id: b\r\n");
  client->ReadReply();
  client->Post("/v1/completions", R"({"prompt": "x"})", "X-Request-Id: c\r\n");
  const auto call = service.TakeCall();
  client->Reset();
  EXPECT_FALSE(call->AwaitCancel().ok());
  server->Stop(std::chrono::seconds(30));
  EXPECT_THAT(lines, testing::ElementsAre("GET /health/live 200 a", "POST /v1/completions 400 b",
                                          "POST /v1/completions 499 c incomplete"));
  std::map<std::pair<HttpRoute, int>, std::uint64_t> counts;
  for (const auto& entry : server->Stats().requests) counts[{entry.route, entry.status}] = entry.count;
  EXPECT_EQ((counts[{HttpRoute::kHealthLive, 200}]), 1u);
  EXPECT_EQ((counts[{HttpRoute::kCompletions, 400}]), 1u);
  EXPECT_EQ((counts[{HttpRoute::kCompletions, 499}]), 1u);
  EXPECT_EQ(server->Stats().open_connections, 0);
}

TEST_F(ProtocolTest, ATakenPortIsAClearError) {
  StartServer();
  options.port = server->port();
  const auto second = *HttpServer::Create(options, service);
  const Status taken = second->Bind();
  EXPECT_EQ(taken.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(taken.message(), HasSubstr("127.0.0.1:" + std::to_string(server->port())));
  EXPECT_EQ(second->Start().code(), StatusCode::kFailedPrecondition);
}

TEST_F(ProtocolTest, AddressesAndOptionsAreChecked) {
  options.host = "192.0.2.1";  // nobody's
  EXPECT_EQ((*HttpServer::Create(options, service))->Bind().code(), StatusCode::kInvalidArgument);
  options.host = "no such host";
  EXPECT_EQ((*HttpServer::Create(options, service))->Bind().code(), StatusCode::kInvalidArgument);
  options.host = "localhost";
  EXPECT_TRUE((*HttpServer::Create(options, service))->Bind().ok());
  options.io_threads = 0;
  const auto refused = HttpServer::Create(options, service);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), HasSubstr("io_threads"));
}

TEST_F(ProtocolTest, SocketsAreNotInherited) {
  StartServer();
  const auto client = Connect();
  client->Get("/health/live");
  client->ReadReply();
  // Read from /proc: to ask the descriptor itself would be a race with the server, which closes some.
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry, gone).string();
    const std::string name = entry.path().filename().string();
    if (gone || !target.starts_with("socket:") || std::stoi(name) <= 2) continue;  // 0 to 2: the test runner's
    std::ifstream file("/proc/self/fdinfo/" + name);
    std::string word;
    std::string flags;
    while (file >> word && word != "flags:") {
    }
    if (!(file >> flags)) continue;
    EXPECT_NE(std::stoi(flags, nullptr, 8) & O_CLOEXEC, 0) << name;
    ++sockets;
  }
  EXPECT_GE(sockets, 3);  // listening, the server's end, the client's end
}

TEST_F(ProtocolTest, StopLetsStreamsEnd) {
  StartServer();
  const auto idle = Connect();
  idle->Get("/health/live");
  idle->ReadReply();
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  const auto call = service.TakeCall();
  call->Accept();
  client->ReadHead();
  const std::uint16_t port = server->port();
  std::future<void> stopped = std::async(std::launch::async, [&] { server->Stop(std::chrono::seconds(60)); });
  EXPECT_TRUE(idle->ReadEnd());  // idle connections close at once
  EXPECT_THROW(TestClient refused(port), std::runtime_error);
  call->Text("a");
  call->Finish();
  call->Complete();
  EXPECT_THAT(client->ReadEvent().value_or(""), HasSubstr("\"text\":\"a\""));
  client->ReadEvent();
  EXPECT_EQ(client->ReadEvent(), "data: [DONE]");
  EXPECT_EQ(client->ReadEvent(), std::nullopt);
  EXPECT_TRUE(client->ReadEnd());
  stopped.get();
  EXPECT_FALSE(call->cancelled());
}

TEST_F(ProtocolTest, StopEndsWhatDoesNotEndInTime) {
  StartServer();
  const auto streaming = Connect();
  streaming->Post("/v1/completions", R"({"prompt": "x", "stream": true})");
  const auto stream_call = service.TakeCall();
  stream_call->Accept();
  streaming->ReadHead();
  const auto waiting = Connect();
  waiting->Post("/v1/completions", R"({"prompt": "x"})");
  const auto waiting_call = service.TakeCall();
  server->Stop(std::chrono::milliseconds(20));
  EXPECT_THAT(streaming->ReadEvent().value_or(""), HasSubstr("event: error"));
  EXPECT_EQ(streaming->ReadEvent(), std::nullopt);
  EXPECT_TRUE(streaming->ReadEnd());
  EXPECT_EQ(waiting->ReadReply().status, 503);
  EXPECT_FALSE(stream_call->AwaitCancel().ok());
  EXPECT_FALSE(waiting_call->AwaitCancel().ok());
  server.reset();
  // Events that come after the server is gone.
  stream_call->Text("late");
  stream_call->Complete();
}

}  // namespace
}  // namespace skipjack::http
