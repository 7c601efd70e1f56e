#include "tests/unit/serve/http/test_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace skipjack::http {
namespace {

constexpr int kGiveUpMilliseconds = 60'000;

[[noreturn]] void Throw(const std::string& what) {
  throw std::runtime_error(what + ": " + std::generic_category().message(errno));
}

}  // namespace

nlohmann::json Reply::json() const {
  return nlohmann::json::parse(body);
}

TestClient::TestClient(std::uint16_t port, int receive_buffer) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) Throw("socket");
  if (receive_buffer > 0)
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Throw("connect");
}

TestClient::~TestClient() {
  Close();
}

void TestClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) Throw("send");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void TestClient::Get(std::string_view path, std::string_view fields) {
  Send("GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(fields) + "\r\n");
}

std::string PostRequest(std::string_view path, std::string_view body, std::string_view fields) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + std::string(fields) + "\r\n" + std::string(body);
}

void TestClient::Post(std::string_view path, std::string_view body, std::string_view fields) {
  Send(PostRequest(path, body, fields));
}

bool TestClient::Fill() {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  const int found = ::poll(&ready, 1, kGiveUpMilliseconds);
  if (found == 0) throw std::runtime_error("nothing to read for a long time");
  std::array<char, 16384> bytes;
  const ssize_t received = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (received < 0 && errno != ECONNRESET) Throw("recv");
  if (received <= 0) return false;
  buffer_.append(bytes.data(), static_cast<std::size_t>(received));
  return true;
}

std::string TestClient::TakeLine() {
  std::size_t end = 0;
  while ((end = buffer_.find("\r\n")) == std::string::npos) {
    if (!Fill()) throw std::runtime_error("the connection ended within a line: " + buffer_);
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

std::string TestClient::TakeBytes(std::size_t count) {
  while (buffer_.size() < count) {
    if (!Fill()) throw std::runtime_error("the connection ended within a body");
  }
  std::string bytes = buffer_.substr(0, count);
  buffer_.erase(0, count);
  return bytes;
}

Reply TestClient::ReadHead() {
  Reply reply;
  const std::string status_line = TakeLine();
  if (!status_line.starts_with("HTTP/1.1 ")) throw std::runtime_error("no status line: " + status_line);
  reply.status = std::stoi(status_line.substr(9, 3));
  for (std::string line = TakeLine(); !line.empty(); line = TakeLine()) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) throw std::runtime_error("no field: " + line);
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    reply.fields[name] = line.substr(colon + 2);
  }
  const auto coding = reply.fields.find("transfer-encoding");
  chunked_ = coding != reply.fields.end() && coding->second == "chunked";
  return reply;
}

std::optional<std::string> TestClient::TakeChunk() {
  const std::size_t size = std::stoul(TakeLine(), nullptr, 16);
  std::string data = TakeBytes(size);
  if (TakeBytes(2) != "\r\n") throw std::runtime_error("no line end after a chunk");
  if (size == 0) return std::nullopt;
  return data;
}

Reply TestClient::ReadReply(bool to_head) {
  Reply reply = ReadHead();
  if (to_head || reply.status < 200 || reply.status == 204) return reply;
  if (chunked_) {
    while (auto chunk = TakeChunk()) reply.body += *chunk;
  } else if (const auto length = reply.fields.find("content-length"); length != reply.fields.end()) {
    reply.body = TakeBytes(std::stoul(length->second));
  } else {
    while (Fill()) {
    }
    reply.body = std::exchange(buffer_, "");
  }
  return reply;
}

std::optional<std::string> TestClient::ReadEvent() {
  std::size_t end = 0;
  while ((end = events_.find("\n\n")) == std::string::npos) {
    std::optional<std::string> chunk = TakeChunk();
    if (!chunk) return std::nullopt;
    events_ += *chunk;
  }
  std::string event = events_.substr(0, end);
  events_.erase(0, end + 2);
  return event;
}

bool TestClient::ReadEnd() {
  return buffer_.empty() && !Fill();
}

void TestClient::FinishSending() {
  ::shutdown(socket_, SHUT_WR);
}

void TestClient::Close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void TestClient::Reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  Close();
}

}  // namespace skipjack::http
