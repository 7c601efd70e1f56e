// A TCP connection with somebody in the middle, who counts HTTP/2 pings and can cut the line or let it go
// silent.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

namespace skipjack::testing {

// Serves one connection on 127.0.0.1.
class TcpRelay {
 public:
  explicit TcpRelay(int target_port);
  ~TcpRelay();

  int port() const { return port_; }
  // Returns once the client sent this many HTTP/2 PING frames of its own, or the connection is over.
  void WaitForClientPings(int count);
  // Nothing passes any more, and nobody hears of it: a cable pulled.
  void GoSilent() { silent_ = true; }
  // Closes the client's side towards the server: a process killed.
  void Cut();

 private:
  void Run(int target_port);
  void Pump(int from, int to, bool from_client);
  void CountPings(const char* data, std::size_t size);

  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> client_{-1};
  std::atomic<int> server_{-1};
  std::atomic<bool> silent_{false};
  std::string unparsed_;  // the client's bytes of an unfinished frame
  bool past_preface_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  int pings_ = 0;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace skipjack::testing
