#include "tests/support/tcp_relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

namespace skipjack::testing {
namespace {

constexpr std::size_t kPrefaceBytes = 24;  // "PRI * HTTP/2.0..."
constexpr std::size_t kFrameHeaderBytes = 9;
constexpr unsigned char kPingFrame = 6;
constexpr unsigned char kAckFlag = 1;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

bool SendAll(int to, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(to, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

TcpRelay::TcpRelay(int target_port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 1) != 0) return;
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this, target_port] { Run(target_port); });
}

TcpRelay::~TcpRelay() {
  shutdown(listener_, SHUT_RDWR);
  Cut();
  if (client_ >= 0) shutdown(client_, SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  close(listener_);
  if (client_ >= 0) close(client_);
  if (server_ >= 0) close(server_);
}

void TcpRelay::Run(int target_port) {
  client_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client_ < 0) return;
  const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(target_port);
  if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    close(server);
    return;
  }
  server_ = server;
  std::thread back([this] { Pump(server_, client_, false); });
  Pump(client_, server_, true);
  back.join();
}

void TcpRelay::Pump(int from, int to, bool from_client) {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t size = recv(from, buffer.data(), buffer.size(), 0);
    if (size <= 0) break;
    if (silent_) continue;
    if (from_client) CountPings(buffer.data(), static_cast<std::size_t>(size));
    if (!SendAll(to, buffer.data(), static_cast<std::size_t>(size))) break;
  }
  if (!silent_) shutdown(to, SHUT_WR);
  std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void TcpRelay::CountPings(const char* data, std::size_t size) {
  unparsed_.append(data, size);
  if (!past_preface_) {
    if (unparsed_.size() < kPrefaceBytes) return;
    unparsed_.erase(0, kPrefaceBytes);
    past_preface_ = true;
  }
  const auto byte = [this](std::size_t at) { return static_cast<unsigned char>(unparsed_[at]); };
  while (unparsed_.size() >= kFrameHeaderBytes) {
    const std::size_t length =
        static_cast<std::size_t>(byte(0)) << 16 | static_cast<std::size_t>(byte(1)) << 8 | byte(2);
    if (unparsed_.size() < kFrameHeaderBytes + length) return;
    if (byte(3) == kPingFrame && (byte(4) & kAckFlag) == 0) {
      std::lock_guard lock(mutex_);
      ++pings_;
      changed_.notify_all();
    }
    unparsed_.erase(0, kFrameHeaderBytes + length);
  }
}

void TcpRelay::WaitForClientPings(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return over_ || pings_ >= count; });
}

void TcpRelay::Cut() {
  if (server_ >= 0) shutdown(server_, SHUT_RDWR);
}

}  // namespace skipjack::testing
