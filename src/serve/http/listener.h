// The listening socket: bound before anything else starts, accepting once told to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/status.h"
#include "serve/http/server_stats.h"

namespace skipjack::http {

// An open, listening, close-on-exec socket.
struct BoundSocket {
  int descriptor = -1;
  std::uint16_t port = 0;
};

// `host` is an address (IPv6 with or without brackets) or a name. AlreadyExists when the port is taken.
Result<BoundSocket> BindListeningSocket(const std::string& host, std::uint16_t port);

// Accepts on one event loop. All members but the constructor are called on that loop's thread.
class Listener {
 public:
  // `accepted` gets each connected socket (close-on-exec, non-blocking) and the peer's address.
  using Accepted = std::function<void(int socket, std::string remote)>;

  // Takes the descriptor.
  Listener(boost::asio::io_context& loop, int descriptor, ServerStats& stats, Accepted accepted);

  void Start() { AwaitConnection(); }
  void Close();

 private:
  using Executor = boost::asio::io_context::executor_type;
  using Clock = std::chrono::steady_clock;

  void AwaitConnection();
  void AcceptWaiting();
  void RetryLater();

  boost::asio::basic_socket_acceptor<boost::asio::ip::tcp, Executor> acceptor_;
  boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Executor> retry_timer_;
  ServerStats& stats_;
  const Accepted accepted_;
};

}  // namespace skipjack::http
