#include "serve/http/io_thread.h"

#include <ctime>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio/post.hpp>

#include "serve/http/connection.h"
#include "serve/http/http_message.h"

namespace skipjack::http {
namespace {

std::mt19937_64 SeededGenerator() {
  std::random_device device;
  std::seed_seq seed{device(), device(), device(), device()};
  return std::mt19937_64(seed);
}

}  // namespace

IoThread::IoThread(ServerContext& context)
    : context_(context),
      keep_running_(boost::asio::make_work_guard(loop_)),
      scratch_(std::make_unique<std::array<char, 64 << 10>>()),
      random_(SeededGenerator()) {}

IoThread::~IoThread() {
  Join();
}

void IoThread::Start() {
  thread_ = std::thread([this] { loop_.run(); });
}

void IoThread::Join() {
  keep_running_.reset();
  if (thread_.joinable()) thread_.join();
}

void IoThread::Adopt(int socket, std::string remote, bool over_limit) {
  ++load_;
  boost::asio::post(loop_, [this, socket, remote = std::move(remote), over_limit]() mutable {
    auto connection = std::make_shared<Connection>(*this, socket, std::move(remote), over_limit);
    connections_.insert(connection);
    connection->Start();
    if (draining_) connection->BeginDrain();
  });
}

void IoThread::BeginDrain() {
  boost::asio::post(loop_, [this] {
    draining_ = true;
    const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->BeginDrain();
  });
}

void IoThread::ForceClose(Status why) {
  boost::asio::post(loop_, [this, why = std::move(why)] {
    const std::vector<std::shared_ptr<Connection>> all(connections_.begin(), connections_.end());
    for (const auto& connection : all) connection->ForceClose(why);
  });
}

void IoThread::Remove(const std::shared_ptr<Connection>& connection) {
  if (connections_.erase(connection) == 0) return;
  --load_;
  const std::lock_guard lock(context_.closed_mutex);
  --context_.stats.open_connections;
  context_.closed.notify_all();
}

std::string_view IoThread::Date() {
  const std::int64_t now = std::time(nullptr);
  if (now != date_seconds_) {
    date_seconds_ = now;
    date_ = FormatHttpDate(now);
  }
  return date_;
}

std::string IoThread::MakeRequestId() {
  return fmt::format("{:016x}{:016x}", random_(), random_());
}

}  // namespace skipjack::http
