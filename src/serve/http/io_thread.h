// One thread that owns an event loop and the connections assigned to it. Everything of a connection happens
// on its thread, so connections need no locks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "base/status.h"
#include "serve/http/server_context.h"

namespace skipjack::http {

class Connection;

class IoThread {
 public:
  using Executor = boost::asio::io_context::executor_type;

  explicit IoThread(ServerContext& context);
  ~IoThread();

  void Start();

  // Any thread.
  void Adopt(int socket, std::string remote, bool over_limit);  // a connected socket, counted as open already
  void BeginDrain();  // idle connections close, others after their answer
  void ForceClose(Status why);
  void Join();  // once every connection has closed
  std::int64_t load() const { return load_; }

  // This thread only.
  boost::asio::io_context& loop() { return loop_; }
  Executor executor() { return loop_.get_executor(); }
  ServerContext& context() { return context_; }
  bool draining() const { return draining_; }
  void Remove(const std::shared_ptr<Connection>& connection);
  std::string_view Date();
  std::string MakeRequestId();
  // Where sockets are read into. Its contents do not outlive the handler that read.
  std::array<char, 64 << 10>& scratch() { return *scratch_; }

 private:
  ServerContext& context_;
  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<Executor> keep_running_;
  std::thread thread_;
  std::atomic<std::int64_t> load_{0};  // connections adopted and not yet removed

  std::unordered_set<std::shared_ptr<Connection>> connections_;
  bool draining_ = false;
  std::unique_ptr<std::array<char, 64 << 10>> scratch_;
  std::mt19937_64 random_;
  std::int64_t date_seconds_ = -1;
  std::string date_;
};

}  // namespace skipjack::http
