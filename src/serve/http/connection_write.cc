// Connection: the writing half, and its end.
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include "serve/http/connection.h"
#include "serve/http/sse.h"

namespace skipjack::http {

using boost::system::error_code;

Connection::Connection(IoThread& io, int socket, std::string remote, bool over_limit)
    : io_(io),
      context_(io.context()),
      socket_(io.executor()),
      remote_(std::move(remote)),
      over_limit_(over_limit),
      deadline_(io.executor()),
      write_timer_(io.executor()),
      keep_alive_timer_(io.executor()) {
  error_code ignored;
  socket_.assign(boost::asio::ip::tcp::v4(), socket, ignored);  // the family only matters when opening
  socket_.non_blocking(true, ignored);
}

Connection::~Connection() = default;

void Connection::Start() {
  SetDeadline(Wait::kIdle, over_limit_ ? context_.options.header_timeout : context_.options.idle_timeout);
  AwaitReadable();
}

void Connection::BeginDrain() {
  draining_ = true;
  if (state_ == State::kReading && parser_ == nullptr) Close();
}

void Connection::ForceClose(const Status& why) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kAnswering) {
    draining_ = true;
    if (exchange_ != nullptr && !answer_ended_) exchange_->Fail(why);
    FinishAnswer(answer_ended_ && unsent() == 0);
  }
  Close();
}

void Connection::WriteHead(Response* response, bool stream) {
  using Body = Framing::Body;
  chunked_ = stream && version_ == 11;
  if (draining_ || (stream && !chunked_)) keep_alive_ = false;
  Body body = response->status == 204 ? Body::kNone : Body::kLength;
  if (stream) body = chunked_ ? Body::kChunked : Body::kUntilClose;
  response->fields.emplace_back("X-Request-Id", request_id_);
  status_ = response->status;
  output_ +=
      SerializeHead(*response, {.body = body, .keep_alive = keep_alive_, .version = version_}, io_.Date());
}

void Connection::Respond(Response response) {
  if (state_ != State::kAnswering || status_ != 0) return;
  WriteHead(&response, false);
  if (method_ != Method::kHead) {
    output_ += response.body;
    body_bytes_ = response.body.size();
  }
  answer_ended_ = true;
  Flush();
  ScheduleSettle();
}

void Connection::BeginStream(Response head) {
  if (state_ != State::kAnswering || status_ != 0) return;
  WriteHead(&head, true);
  streaming_ = true;
  ++context_.stats.open_streams;
  Flush();
  ScheduleSettle();
  ArmKeepAlive(context_.options.keep_alive_interval);
}

void Connection::StreamData(std::string_view data) {
  if (!streaming_ || answer_ended_ || data.empty()) return;
  body_bytes_ += data.size();
  if (chunked_) {
    AppendChunk(&output_, data);
  } else {
    output_ += data;
  }
  Flush();
  ScheduleSettle();
}

void Connection::EndStream() {
  if (!streaming_ || answer_ended_) return;
  if (chunked_) output_ += kLastChunk;
  answer_ended_ = true;
  Flush();
  ScheduleSettle();
}

// Writes as much as the socket takes now. What stays behind is joined by what comes next and goes out in one
// write when the socket is writable again.
void Connection::Flush() {
  if (state_ == State::kClosed) return;
  while (unsent() > 0 && !write_pending_ && !write_failed_) {
    error_code error;
    const std::size_t bytes =
        socket_.write_some(boost::asio::buffer(output_.data() + output_sent_, unsent()), error);
    output_sent_ += bytes;
    if (bytes > 0) last_output_ = Clock::now();
    if (error == boost::asio::error::would_block) return AwaitWritable();
    if (error) write_failed_ = true;
  }
  if (unsent() == 0) {
    constexpr std::size_t kKeptCapacity = 64 << 10;
    output_.clear();
    output_sent_ = 0;
    if (output_.capacity() > kKeptCapacity) output_ = std::string();
  }
}

void Connection::AwaitWritable() {
  constexpr std::size_t kCompactAt = 256 << 10;
  if (output_sent_ > kCompactAt) output_.erase(0, std::exchange(output_sent_, 0));
  write_pending_ = true;
  ArmWriteTimer();
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](error_code error) {
    self->write_pending_ = false;
    self->write_timer_.cancel();
    if (error) return;
    self->Flush();
    self->ScheduleSettle();
  });
}

void Connection::ArmWriteTimer() {
  write_timer_.expires_after(context_.options.write_timeout);
  write_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && self->write_pending_ && Clock::now() >= self->write_timer_.expiry())
      self->Lose(Loss::kTooSlow);
  });
}

void Connection::ArmKeepAlive(Duration after) {
  keep_alive_timer_.expires_after(after);
  keep_alive_timer_.async_wait([self = shared_from_this()](error_code error) {
    if (error || self->state_ != State::kAnswering || self->answer_ended_) return;
    const Duration interval = self->context_.options.keep_alive_interval;
    const Duration silent = Clock::now() - self->last_output_;
    if (silent < interval) return self->ArmKeepAlive(interval - silent);
    if (self->streaming_) return self->OnKeepAlive();
    if (self->peer_finished_) self->ProbePeer();
  });
}

// Nothing was sent for a while. Bytes that wait for the client already do what a comment would.
void Connection::OnKeepAlive() {
  if (unsent() == 0) StreamData(kSseKeepAlive);
  ArmKeepAlive(context_.options.keep_alive_interval);
}

// Consequences are drawn after the exchange has returned, which may be calling us now.
void Connection::ScheduleSettle() {
  if (std::exchange(settle_scheduled_, true)) return;
  boost::asio::post(io_.executor(), [self = shared_from_this()] {
    self->settle_scheduled_ = false;
    self->Settle();
  });
}

void Connection::Settle() {
  if (state_ == State::kClosed) return;
  if (write_failed_) return Lose(Loss::kClientLeft);
  if (streaming_ && unsent() > static_cast<std::size_t>(context_.options.max_stream_bytes))
    return Lose(Loss::kTooSlow);
  if (state_ != State::kAnswering || !answer_ended_ || unsent() > 0) return;

  FinishAnswer(true);
  if (!keep_alive_ || draining_) return Linger();
  state_ = State::kReading;
  SetDeadline(Wait::kIdle, context_.options.idle_timeout);
  Advance();
  if (!peer_finished_) return AwaitReadable();
  if (state_ == State::kReading) return Close();
  ProbePeer();
}

void Connection::FinishAnswer(bool complete) {
  keep_alive_timer_.cancel();
  if (streaming_) --context_.stats.open_streams;
  if (status_ == 0) status_ = 499;  // the client left before any answer
  context_.stats.CountRequest(match_.route, status_);
  if (context_.options.access) {
    context_.options.access({.route = match_.route,
                             .method = method_name_,
                             .path = path_,
                             .remote = remote_,
                             .request_id = request_id_,
                             .status = status_,
                             .response_bytes = body_bytes_,
                             .duration = Clock::now() - request_begin_,
                             .complete = complete});
  }
  exchange_.reset();
  status_ = 0;
  body_bytes_ = 0;
  streaming_ = answer_ended_ = false;
}

// The client is gone, or does not take what we send.
void Connection::Lose(Loss loss) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kAnswering) {
    ++(loss == Loss::kTooSlow ? context_.stats.streams_cut : context_.stats.disconnects);
    if (exchange_ != nullptr) {
      exchange_->Cancel(Status::Cancelled(loss == Loss::kTooSlow ? "the client reads its answer too slowly"
                                                                 : "the client closed the connection"));
    }
    FinishAnswer(false);
  }
  Close();
}

// Closing while the client still sends would reset the connection and may destroy the answer before it is
// read. So we say that nothing more will come, and read on for a while.
void Connection::Linger() {
  if (peer_finished_) return Close();
  state_ = State::kLingering;
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) return Close();
  SetDeadline(Wait::kLinger, context_.options.linger_timeout);
  AwaitReadable();
}

void Connection::Close() {
  if (std::exchange(state_, State::kClosed) == State::kClosed) return;
  error_code ignored;
  socket_.close(ignored);
  deadline_.cancel();
  write_timer_.cancel();
  keep_alive_timer_.cancel();
  exchange_.reset();
  io_.Remove(shared_from_this());
}

}  // namespace skipjack::http
