// Bodies are bounded together, not only one by one: what has arrived counts until it has been read.
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tests/unit/serve/http/server_fixture.h"

namespace skipjack::http {
namespace {

using testing::HasSubstr;

class BodyBudgetTest : public ServerTest {
 protected:
  BodyBudgetTest() {
    options.max_request_bytes = 1000;
    options.max_pending_bytes = 1500;
  }

  // A request whose body has this many bytes.
  static std::string BodyOf(std::size_t bytes) {
    std::string body = R"({"prompt": "x"})";
    body.resize(bytes, ' ');
    return body;
  }

  static std::string Head(const std::string& framing) {
    return "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n" + framing +
           "\r\n\r\n";
  }

  // Sends all but the last `missing` bytes of a body.
  std::unique_ptr<TestClient> SendMostOf(std::size_t bytes, std::size_t missing) {
    auto client = Connect();
    client->Send(Head("Content-Length: " + std::to_string(bytes)) + BodyOf(bytes).substr(0, bytes - missing));
    return client;
  }

  void AwaitHeld(std::int64_t bytes) {
    while (server->Stats().body_bytes != bytes) std::this_thread::yield();
  }

  // The only worker stands until the promise is kept, or broken.
  std::promise<void> BlockWorker() {
    std::promise<void> gate;
    service.RunOnWorker([opened = gate.get_future().share()] { opened.wait(); });
    return gate;
  }

  void Serve(TestClient* client) {
    const auto call = service.TakeCall();
    call->Accept();
    call->Finish();
    call->Complete();
    EXPECT_EQ(client->ReadReply().status, 200);
  }

  // Refused for want of budget, and closed so that the refusal can be read.
  static void ExpectOverloaded(TestClient* client) {
    const Reply refused = client->ReadReply();
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.fields.at("retry-after"), "1");
    EXPECT_EQ(refused.fields.at("connection"), "close");
    EXPECT_EQ(refused.json()["error"]["type"], "rate_limit_error");
    EXPECT_THAT(refused.json()["error"]["message"].get<std::string>(), HasSubstr("max_pending_bytes = 1500"));
    EXPECT_TRUE(client->ReadEnd());
  }
};

TEST_F(BodyBudgetTest, WhatWouldNotFitIsRefusedBeforeItIsSent) {
  StartServer();
  const auto slow = SendMostOf(1000, 100);
  AwaitHeld(900);
  const auto large = Connect();
  large->Send(Head("Content-Length: 601"));
  ExpectOverloaded(large.get());
  // What fits goes on, and holds nothing once it has been read.
  const auto fitting = Connect();
  fitting->Post("/v1/completions", BodyOf(600));
  Serve(fitting.get());
  EXPECT_EQ(server->Stats().body_bytes, 900);
  slow->Send(std::string(100, ' '));
  Serve(slow.get());
  EXPECT_EQ(server->Stats().body_bytes, 0);
  // The connection serves on.
  slow->Post("/v1/completions", BodyOf(1000));
  Serve(slow.get());
}

TEST_F(BodyBudgetTest, AnnouncedBytesThatDoNotComeTakeNothing) {
  StartServer();
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(Connect());
    silent.back()->Send(Head("Content-Length: 1000"));
  }
  silent.front()->Send(BodyOf(1000));
  Serve(silent.front().get());
}

TEST_F(BodyBudgetTest, ABodyWithoutALengthIsRefusedWhereItNoLongerFits) {
  StartServer();
  const auto slow = SendMostOf(1000, 100);
  AwaitHeld(900);
  const auto chunked = Connect();
  chunked->Send(Head("Transfer-Encoding: chunked") + "190\r\n" + std::string(400, ' ') + "\r\n");
  AwaitHeld(1300);
  chunked->Send("12c\r\n" + std::string(300, ' ') + "\r\n");
  ExpectOverloaded(chunked.get());
  EXPECT_EQ(server->Stats().body_bytes, 900);
}

TEST_F(BodyBudgetTest, ClientsThatLeaveOrDawdleGiveTheirsBack) {
  options.body_timeout = std::chrono::milliseconds(50);
  StartServer();
  const auto late = SendMostOf(1000, 1);
  EXPECT_EQ(late->ReadReply().status, 408);
  EXPECT_EQ(server->Stats().body_bytes, 0);
  options.body_timeout = std::chrono::minutes(10);
  StartServer();
  const auto leaving = SendMostOf(1000, 1);
  AwaitHeld(999);
  leaving->Reset();
  AwaitHeld(0);
}

TEST_F(BodyBudgetTest, BodiesThatWaitForAWorkerCount) {
  options.inline_bytes = 10;
  StartServer();
  std::promise<void> gate = BlockWorker();
  const auto waiting = Connect();
  waiting->Post("/v1/completions", BodyOf(1000));
  AwaitHeld(1000);
  const auto tokenize = Connect();
  tokenize->Post("/tokenize", BodyOf(400));
  AwaitHeld(1400);
  const auto refused = Connect();
  refused->Post("/detokenize", BodyOf(101));
  ExpectOverloaded(refused.get());
  gate.set_value();
  EXPECT_EQ(tokenize->ReadReply().status, 200);
  Serve(waiting.get());
  EXPECT_EQ(server->Stats().body_bytes, 0);
  std::uint64_t counted = 0;
  for (const HttpStats::Requests& entry : server->Stats().requests) {
    if (entry.route == HttpRoute::kDetokenize && entry.status == 429) counted = entry.count;
  }
  EXPECT_EQ(counted, 1u);
}

TEST_F(BodyBudgetTest, ABodyMayWaitLongerThanTheServerLives) {
  options.inline_bytes = 10;
  StartServer();
  std::promise<void> gate = BlockWorker();
  const auto waiting = Connect();
  waiting->Post("/tokenize", BodyOf(1000));
  AwaitHeld(1000);
  server.reset();
  gate.set_value();
  std::promise<void> after;
  service.RunOnWorker([&after] { after.set_value(); });
  after.get_future().wait();
}

TEST_F(BodyBudgetTest, OneBodyMustFit) {
  options.max_pending_bytes = 999;
  const auto refused = HttpServer::Create(options, service);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(),
              testing::AllOf(HasSubstr("max_pending_bytes = 999"), HasSubstr("max_request_bytes = 1000")));
}

}  // namespace
}  // namespace skipjack::http
