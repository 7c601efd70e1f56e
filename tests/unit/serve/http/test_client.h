// A client that knows just enough HTTP, over a blocking socket it has full control of. Every read gives up
// with an exception after a long time, so that a failing test ends.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace skipjack::http {

struct Reply {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;

  nlohmann::json json() const;  // throws when the body is not JSON
};

class TestClient {
 public:
  // `receive_buffer`: SO_RCVBUF, 0 for the system's.
  explicit TestClient(std::uint16_t port, int receive_buffer = 0);
  ~TestClient();
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void Send(std::string_view bytes);
  void Get(std::string_view path, std::string_view fields = "");
  void Post(std::string_view path, std::string_view body, std::string_view fields = "");

  // Status line and fields; interim answers (1xx) count as replies of their own.
  Reply ReadHead();
  // With the body, by Content-Length, chunks or the connection's end.
  Reply ReadReply(bool to_head = false);

  // After ReadHead of a chunked answer: one SSE event without its final empty line; nullopt at the body's
  // end.
  std::optional<std::string> ReadEvent();

  bool ReadEnd();  // true: the peer closes without another byte; a reset counts
  void FinishSending();
  void Close();
  void Reset();  // closes with a RST

 private:
  bool Fill();  // more bytes into buffer_; false at the end
  std::string TakeLine();
  std::string TakeBytes(std::size_t count);
  std::optional<std::string> TakeChunk();

  int socket_ = -1;
  std::string buffer_;
  bool chunked_ = false;
  std::string events_;
};

// "POST <path> HTTP/1.1 ..." with a JSON body.
std::string PostRequest(std::string_view path, std::string_view body, std::string_view fields = "");

}  // namespace skipjack::http
