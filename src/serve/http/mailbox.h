// The one way from other threads into an I/O thread: events are queued under a lock and handed over in
// batches, one hand-over at a time. After Close() nothing is delivered and the I/O thread's queue is not
// touched again, so a poster may outlive the connection, the I/O thread and the server.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace skipjack::http {

template <typename Event>
class Mailbox : public std::enable_shared_from_this<Mailbox<Event>> {
 public:
  using Executor = boost::asio::io_context::executor_type;

  // `deliver` runs on the executor's thread.
  Mailbox(Executor executor, std::function<void(std::vector<Event>)> deliver)
      : executor_(executor), deliver_(std::move(deliver)) {}

  // Any thread.
  void Post(Event event) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    events_.push_back(std::move(event));
    if (std::exchange(scheduled_, true)) return;
    boost::asio::post(executor_, [self = this->shared_from_this()] { self->Deliver(); });
  }

  // The executor's thread.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    events_.clear();
  }

 private:
  void Deliver() {
    std::vector<Event> batch;
    {
      const std::lock_guard lock(mutex_);
      scheduled_ = false;
      if (closed_) return;
      batch.swap(events_);
    }
    deliver_(std::move(batch));
  }

  const Executor executor_;
  const std::function<void(std::vector<Event>)> deliver_;
  std::mutex mutex_;
  std::vector<Event> events_;  // guarded by mutex_, as the two below
  bool scheduled_ = false;
  bool closed_ = false;
};

}  // namespace skipjack::http
