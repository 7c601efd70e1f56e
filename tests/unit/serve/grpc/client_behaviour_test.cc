// Generate for clients that do not read, leave, fall silent, ping, or are many.
#include <optional>
#include <string>
#include <vector>

#include "tests/support/tcp_relay.h"
#include "tests/unit/serve/grpc/grpc_fixture.h"

namespace skipjack {
namespace {

using std::chrono::milliseconds;
using testing::ClientStream;
using testing::TcpRelay;

using ClientBehaviourTest = testing::GrpcTest;

TEST_F(ClientBehaviourTest, AClientThatDoesNotReadIsCut) {
  server_options_.max_stream_bytes = 32 << 10;
  StartServer();
  v1::GenerateRequest request = Prompt("x");
  request.set_return_tokens(true);
  const auto stream = Generate(request);
  const auto reader = Generate(Prompt("y"));
  const std::vector<SequenceId> ids = engine_->WaitForSequences(2);
  const bool first_is_slow = engine_->RequestOf(ids[0]).prompt.back() == 'x';
  const SequenceId slow = ids[first_is_slow ? 0 : 1];
  const SequenceId other = ids[first_is_slow ? 1 : 0];
  int generated = 0;
  while (engine_->CancelledWith(slow).ok() && generated < 10'000'000) {
    engine_->Generate(slow, 'a');
    ++generated;
  }
  EXPECT_EQ(engine_->CancelledWith(slow).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(server_->Stats().slow_clients_cut, 1u);
  // The others hear nothing of it.
  engine_->Generate(other, "fine");
  engine_->Finish(other, FinishReason::kLength);
  EXPECT_TRUE(reader->Drain().ok());
  EXPECT_EQ(reader->text[0], "fine");
  EXPECT_FALSE(stream->Drain().ok());
}

TEST_F(ClientBehaviourTest, AClientWhoseProcessDiesStopsTheWork) {
  StartServer();
  TcpRelay relay(server_->port());
  const auto channel = testing::Connect(relay.port());
  ClientStream stream(channel, Prompt("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  ASSERT_TRUE(stream.Read());
  relay.Cut();
  engine_->WaitUntilIdle();
  EXPECT_EQ(engine_->CancelledWith(id).code(), StatusCode::kCancelled);
  EXPECT_FALSE(stream.Drain().ok());
}

TEST_F(ClientBehaviourTest, AClientThatFallsSilentIsFoundOut) {
  server_options_.keepalive_interval = milliseconds(500);
  server_options_.keepalive_timeout = milliseconds(2000);
  StartServer();
  TcpRelay relay(server_->port());
  const auto channel = testing::Connect(relay.port());
  ClientStream stream(channel, Prompt("x"));
  engine_->WaitForSequences(1);
  ASSERT_TRUE(stream.Read());
  relay.GoSilent();
  engine_->WaitUntilIdle();
  stream.context().TryCancel();
  EXPECT_FALSE(stream.Drain().ok());
}

// A client that pings while it waits, as clients behind proxies do.
grpc::ChannelArguments Pinging() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 30);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 60'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  return arguments;
}

TEST_F(ClientBehaviourTest, AClientMayPingDuringALongWait) {
  server_options_.min_ping_interval = milliseconds(1);
  StartServer();
  TcpRelay relay(server_->port());
  const auto channel = testing::Connect(relay.port(), Pinging());
  ClientStream stream(channel, Prompt("x"));
  const SequenceId id = engine_->WaitForSequences(1)[0];
  relay.WaitForClientPings(10);
  engine_->Generate(id, "ok");
  engine_->Finish(id, FinishReason::kLength);
  EXPECT_TRUE(stream.Drain().ok());
  EXPECT_EQ(stream.text[0], "ok");
}

TEST_F(ClientBehaviourTest, AClientThatPingsTooOftenIsSentAway) {
  // Shows that the test above could fail.
  server_options_.min_ping_interval = std::chrono::minutes(5);
  StartServer();
  TcpRelay relay(server_->port());
  const auto channel = testing::Connect(relay.port(), Pinging());
  ClientStream stream(channel, Prompt("x"));
  engine_->WaitForSequences(1);
  EXPECT_EQ(stream.Drain().error_code(), grpc::StatusCode::UNAVAILABLE);
  engine_->WaitUntilIdle();
}

TEST_F(ClientBehaviourTest, TwoHundredStreamsAtOnce) {
  constexpr std::size_t kStreams = 200;
  options_.max_live_requests = 256;
  StartServer();
  std::vector<std::unique_ptr<ClientStream>> streams;
  for (std::size_t i = 0; i < kStreams; ++i) {
    v1::GenerateRequest request = Prompt("x");
    request.set_request_id(std::to_string(i));
    streams.push_back(Generate(request));
  }
  const std::vector<SequenceId> ids = engine_->WaitForSequences(kStreams);
  EXPECT_EQ(AdminStatus().requests_size(), static_cast<int>(kStreams));
  for (int round = 0; round < 20; ++round) {
    for (const SequenceId id : ids) engine_->Generate(id, engine_->RequestOf(id).request_id + ",");
  }
  for (const SequenceId id : ids) engine_->Finish(id, FinishReason::kLength);
  for (std::size_t i = 0; i < kStreams; ++i) {
    EXPECT_TRUE(streams[i]->Drain().ok());
    std::string expected;
    for (int round = 0; round < 20; ++round) expected += std::to_string(i) + ",";
    EXPECT_EQ(streams[i]->text[0], expected);
  }
}

TEST_F(ClientBehaviourTest, ClientsThatLeaveAtAnyMomentDoNoHarm) {
  options_.max_live_requests = 256;
  StartServer();
  engine_->on_submitted = [&](SequenceId id) { engine_->Generate(id, "abc"); };
  for (int i = 0; i < 200; ++i) {
    const auto stream = Generate(Prompt("x"));
    const auto first = i % 4 >= 1 ? stream->Read() : std::nullopt;
    // The text may have come together with the start.
    if (i % 4 >= 2 && first && first->deltas_size() == 0) stream->Read();
    if (i % 4 == 3) engine_->Finish(engine_->WaitForSequences(1)[0], FinishReason::kLength);
    stream->context().TryCancel();
    stream->Drain();
    engine_->WaitUntilIdle();
  }
  server_->Shutdown(Duration::zero());
  EXPECT_EQ(service().LiveRequests(), 0);
}

}  // namespace
}  // namespace skipjack
