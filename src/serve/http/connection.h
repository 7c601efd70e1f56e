// One client connection: reads requests, one at a time, and writes their answers. Lives on one I/O thread.
//
//   reading ──request complete──▶ answering ──all written──▶ reading (keep-alive)
//      │ refused early, timeout       │                └───▶ lingering ──▶ closed (Connection: close)
//      └────────▶ answering           └── client gone, cut ─▶ closed
//
// While answering, the socket is still read: later requests of the client wait in the input buffer
// (pipelining), and the end of the client's stream is seen at once. That end may mean a client that left or
// one that only finished sending. The two are told apart by writing something harmless (an SSE comment, "100
// Continue"): a peer that is gone answers with a reset.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "serve/http/error_json.h"
#include "serve/http/exchange.h"
#include "serve/http/io_thread.h"
#include "serve/http/request_parser.h"
#include "serve/http/router.h"

namespace skipjack::http {

class Connection final : public ResponseChannel, public std::enable_shared_from_this<Connection> {
 public:
  // `socket` is connected; closed with the connection.
  Connection(IoThread& io, int socket, std::string remote, bool over_limit);
  ~Connection() override;

  void Start();
  void BeginDrain();
  void ForceClose(const Status& why);

  void NameRequest(const std::string& id) override { request_id_ = id; }
  void Respond(Response response) override;
  void BeginStream(Response head) override;
  void StreamData(std::string_view data) override;
  void EndStream() override;

 private:
  using Clock = std::chrono::steady_clock;
  using Timer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, IoThread::Executor>;
  using Socket = boost::asio::basic_stream_socket<boost::asio::ip::tcp, IoThread::Executor>;

  enum class State : std::uint8_t { kReading, kAnswering, kLingering, kClosed };
  enum class Wait : std::uint8_t { kIdle, kHead, kBody, kLinger };
  enum class Loss : std::uint8_t { kClientLeft, kTooSlow };

  // connection_read.cc
  void AwaitReadable();
  void OnReadable();
  void OnPeerFinished();
  void AwaitHangup();
  void ProbePeer();
  void Advance();
  void AwaitRest();
  void OnHead();
  void OnRequest();
  void Refuse(HttpError error, bool close);
  void SetDeadline(Wait wait, Duration after);
  void OnDeadline();
  bool WantsInput() const;

  // connection_write.cc
  void WriteHead(Response* response, bool stream);
  void Flush();
  void AwaitWritable();
  void ArmWriteTimer();
  void ArmKeepAlive(Duration after);
  void OnKeepAlive();
  void ScheduleSettle();
  void Settle();
  void FinishAnswer(bool complete);
  void Lose(Loss loss);
  void Linger();
  void Close();
  std::size_t unsent() const { return output_.size() - output_sent_; }

  IoThread& io_;
  ServerContext& context_;
  Socket socket_;
  const std::string remote_;
  const bool over_limit_;  // beyond max_connections: one answer, then closed

  State state_ = State::kReading;
  bool draining_ = false;
  bool peer_finished_ = false;  // the end of its stream was read

  // Reading.
  std::string input_;
  std::size_t input_taken_ = 0;  // consumed from the front of input_
  std::unique_ptr<RequestParser> parser_;
  bool advancing_ = false;
  bool read_pending_ = false;
  bool hangup_pending_ = false;
  Timer deadline_;
  Wait wait_ = Wait::kIdle;

  // The request being answered.
  RouteMatch match_;
  Method method_ = Method::kOther;
  std::string method_name_, path_, request_id_;
  int version_ = 11;
  bool keep_alive_ = true;
  Clock::time_point request_begin_;
  std::shared_ptr<Exchange> exchange_;

  // Its answer.
  std::string output_;
  std::size_t output_sent_ = 0;  // written from the front of output_
  int status_ = 0;               // 0: nothing answered yet
  std::uint64_t body_bytes_ = 0;
  bool streaming_ = false;
  bool chunked_ = false;
  bool answer_ended_ = false;
  bool write_failed_ = false;
  bool write_pending_ = false;
  bool settle_scheduled_ = false;
  Clock::time_point last_output_;
  Timer write_timer_;
  Timer keep_alive_timer_;
};

}  // namespace skipjack::http
