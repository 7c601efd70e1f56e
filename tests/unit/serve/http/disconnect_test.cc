// A client that leaves ends its work at once, wherever the request is; one that only finished sending does
// not.
#include <string>

#include <gmock/gmock.h>

#include "tests/unit/serve/http/server_fixture.h"

namespace skipjack::http {
namespace {

using testing::HasSubstr;

class DisconnectTest : public ServerTest {
 protected:
  void SetUp() override { StartServer(); }

  void ExpectCancelled(FakeCall& call) {
    const Status why = call.AwaitCancel();
    EXPECT_EQ(why.code(), StatusCode::kCancelled);
    EXPECT_THAT(why.message(), HasSubstr("closed the connection"));
    EXPECT_EQ(Get("/health/live").status, 200);
    // Late events are harmless.
    call.Text("late");
    call.Finish();
    call.Complete();
  }
};

constexpr std::string_view kWhole = R"({"prompt": "x"})";
constexpr std::string_view kStream = R"({"prompt": "x", "stream": true})";

TEST_F(DisconnectTest, WhileQueued) {
  for (const std::string_view body : {kWhole, kStream}) {
    const auto client = Connect();
    client->Post("/v1/completions", body);
    const auto call = service.TakeCall();
    client->Close();
    ExpectCancelled(*call);
  }
  EXPECT_EQ(server->Stats().disconnects, 2u);
}

TEST_F(DisconnectTest, WhilePrefilling) {
  for (const std::string_view body : {kWhole, kStream}) {
    const auto client = Connect();
    client->Post("/v1/completions", body);
    const auto call = service.TakeCall();
    call->Accept();
    client->Close();
    ExpectCancelled(*call);
  }
}

TEST_F(DisconnectTest, WhileDecoding) {
  for (const std::string_view body : {kWhole, kStream}) {
    const auto client = Connect();
    client->Post("/v1/completions", body);
    const auto call = service.TakeCall();
    call->Accept();
    call->Text("a");
    if (body == kStream) {
      client->ReadHead();
      client->ReadEvent();
    }
    client->Close();
    ExpectCancelled(*call);
  }
  EXPECT_EQ(server->Stats().open_streams, 0);
}

TEST_F(DisconnectTest, ByReset) {
  for (const std::string_view body : {kWhole, kStream}) {
    const auto client = Connect();
    client->Post("/v1/completions", body);
    const auto call = service.TakeCall();
    client->Reset();
    ExpectCancelled(*call);
  }
}

TEST_F(DisconnectTest, EndsEveryPromptOfTheRequest) {
  const auto client = Connect();
  client->Post("/v1/completions", R"({"prompt": ["a", "b", "c"]})");
  const std::shared_ptr<FakeCall> calls[] = {service.TakeCall(), service.TakeCall(), service.TakeCall()};
  calls[1]->Accept();
  client->Close();
  for (const auto& call : calls) ExpectCancelled(*call);
}

TEST_F(DisconnectTest, WithMoreRequestsWaitingBehind) {
  const auto client = Connect();
  client->Send(PostRequest("/v1/completions", kStream) + PostRequest("/v1/completions", kStream));
  const auto call = service.TakeCall();
  call->Accept();
  client->ReadHead();
  client->Reset();
  ExpectCancelled(*call);
  EXPECT_EQ(service.started(), 1u);
}

// More pipelined bytes than are kept: the socket is no longer read, and a reset is noticed all the same.
TEST_F(DisconnectTest, BehindAFullInputBuffer) {
  const auto client = Connect();
  client->Post("/v1/completions", kStream);
  const auto call = service.TakeCall();
  client->Post("/v1/completions", std::string(200 << 10, ' '));
  call->Accept();
  client->ReadHead();
  client->Reset();
  ExpectCancelled(*call);
}

TEST_F(DisconnectTest, HalfCloseStillGetsAWholeAnswer) {
  const auto client = Connect();
  client->Post("/v1/completions", kWhole);
  client->FinishSending();
  const auto call = service.TakeCall();
  EXPECT_EQ(client->ReadReply().status, 100);  // the probe
  call->Accept();
  call->Text("a");
  call->Finish();
  call->Complete();
  EXPECT_EQ(client->ReadReply().json()["choices"][0]["text"], "a");
  EXPECT_TRUE(client->ReadEnd());
  EXPECT_EQ(server->Stats().disconnects, 0u);
}

TEST_F(DisconnectTest, HalfCloseStillGetsAStream) {
  const auto client = Connect();
  client->Post("/v1/completions", kStream);
  const auto call = service.TakeCall();
  call->Accept();
  client->ReadHead();
  client->FinishSending();
  EXPECT_EQ(client->ReadEvent(), ": keep-alive");  // the probe
  call->Text("a");
  EXPECT_THAT(client->ReadEvent().value_or(""), HasSubstr("\"text\":\"a\""));
  call->Finish();
  call->Complete();
  EXPECT_THAT(client->ReadEvent().value_or(""), HasSubstr("stop"));
  EXPECT_EQ(client->ReadEvent(), "data: [DONE]");
  EXPECT_EQ(client->ReadEvent(), std::nullopt);
  EXPECT_TRUE(client->ReadEnd());
}

TEST_F(DisconnectTest, HalfCloseThenGone) {
  const auto client = Connect();
  client->Post("/v1/completions", kStream);
  const auto call = service.TakeCall();
  call->Accept();
  client->ReadHead();
  client->FinishSending();
  EXPECT_EQ(client->ReadEvent(), ": keep-alive");
  client->Close();
  call->Text("somebody there?");  // what shows that nobody is
  ExpectCancelled(*call);
}

TEST_F(DisconnectTest, PipelinedRequestsOfAHalfClosedClientAreAnswered) {
  const auto client = Connect();
  client->Send("GET /health/live HTTP/1.1\r\nHost: h\r\n\r\nGET /version HTTP/1.1\r\nHost: h\r\n\r\n");
  client->FinishSending();
  EXPECT_EQ(client->ReadReply().status, 200);
  EXPECT_EQ(client->ReadReply().status, 200);
  EXPECT_TRUE(client->ReadEnd());
}

TEST_F(DisconnectTest, InTheMiddleOfARequest) {
  const std::string request = PostRequest("/v1/completions", kWhole);
  for (std::size_t sent = 1; sent < request.size(); sent += 7) {
    const auto client = Connect();
    client->Send(request.substr(0, sent));
    if (sent % 2 == 0) client->Reset();
  }
  EXPECT_EQ(Get("/health/live").status, 200);
  EXPECT_EQ(service.started(), 0u);
}

}  // namespace
}  // namespace skipjack::http
