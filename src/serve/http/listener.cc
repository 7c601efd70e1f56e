#include "serve/http/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace skipjack::http {
namespace {

using boost::system::error_code;

std::string ErrorText(int number) {
  return std::generic_category().message(number);
}

void SetOption(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof(value));
}

std::string WithoutBrackets(const std::string& host) {
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

Status BindError(int number, const std::string& where) {
  const std::string message = "cannot listen on " + where + ": " + ErrorText(number);
  switch (number) {
    case EADDRINUSE:
      return Status::AlreadyExists(message);
    case EACCES:
      return {StatusCode::kPermissionDenied, message};
    case EADDRNOTAVAIL:
      return Status::InvalidArgument(message);
    default:
      return Status::Internal(message);
  }
}

Result<BoundSocket> BindAddress(const addrinfo& address, const std::string& where) {
  const int socket = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return BindError(errno, where);
  SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  // Listening here and now: two sockets can be bound to one port, but not listen on it.
  if (::bind(socket, address.ai_addr, address.ai_addrlen) != 0 || ::listen(socket, SOMAXCONN) != 0) {
    const int number = errno;
    ::close(socket);
    return BindError(number, where);
  }
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  const std::uint16_t port = bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                         : reinterpret_cast<sockaddr_in*>(&bound)->sin_port;
  return BoundSocket{socket, ntohs(port)};
}

std::string DescribePeer(const sockaddr_storage& peer) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (peer.ss_family == AF_INET6) {
    const auto& address = reinterpret_cast<const sockaddr_in6&>(peer);
    ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(address.sin6_port));
  }
  const auto& address = reinterpret_cast<const sockaddr_in&>(peer);
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return fmt::format("{}:{}", text.data(), ntohs(address.sin_port));
}

// Tokens go out one by one, so no waiting to fill packets; and a peer that vanished without a word is found
// out.
void TuneConnection(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 30);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace

Result<BoundSocket> BindListeningSocket(const std::string& host, std::uint16_t port) {
  const std::string where = host + ":" + std::to_string(port);
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(WithoutBrackets(host).c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return Status::InvalidArgument("cannot listen on " + where + ": " + std::string(::gai_strerror(failed)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, &::freeaddrinfo);
  // A name with both kinds of address ("localhost") means the IPv4 one.
  const addrinfo* chosen = found;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (address->ai_family == AF_INET) {
      chosen = address;
      break;
    }
  }
  return BindAddress(*chosen, where);
}

Listener::Listener(boost::asio::io_context& loop, int descriptor, ServerStats& stats, Accepted accepted)
    : acceptor_(loop), retry_timer_(loop), stats_(stats), accepted_(std::move(accepted)) {
  error_code ignored;
  acceptor_.assign(boost::asio::ip::tcp::v4(), descriptor, ignored);  // the family only matters when opening
}

void Listener::Close() {
  error_code ignored;
  acceptor_.close(ignored);
  retry_timer_.cancel();
}

void Listener::AwaitConnection() {
  acceptor_.async_wait(decltype(acceptor_)::wait_read, [this](error_code error) {
    if (!error) AcceptWaiting();
  });
}

// accept4 by hand: close-on-exec must be set in the same call, or a child forked in between inherits the
// socket.
void Listener::AcceptWaiting() {
  constexpr int kMostAtOnce = 64;
  for (int i = 0; i < kMostAtOnce; ++i) {
    sockaddr_storage peer{};
    socklen_t size = sizeof(peer);
    const int socket = ::accept4(acceptor_.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                                 SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      TuneConnection(socket);
      accepted_(socket, DescribePeer(peer));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    if (errno == EINTR || errno == ECONNABORTED) continue;
    ++stats_.accept_errors;
    return RetryLater();
  }
  AwaitConnection();
}

// Out of descriptors or memory: the connection stays in the backlog, so waiting for readiness would spin.
void Listener::RetryLater() {
  retry_timer_.expires_after(std::chrono::milliseconds(100));
  retry_timer_.async_wait([this](error_code error) {
    if (!error && acceptor_.is_open()) AwaitConnection();
  });
}

}  // namespace skipjack::http
