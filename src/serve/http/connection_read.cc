// Connection: the reading half, from bytes to a request under way.
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

#include "serve/http/connection.h"
#include "serve/http/handlers.h"
#include "serve/http/head_checks.h"

namespace skipjack::http {

using boost::system::error_code;

namespace {

// Requests that wait behind the one being answered; a client that sends more has to wait itself.
constexpr std::size_t kMaxPipelinedBytes = 64 << 10;
// Bytes taken from one socket before others get their turn.
constexpr std::size_t kReadBudget = 256 << 10;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

bool Connection::WantsInput() const {
  if (state_ == State::kAnswering) return input_.size() < kMaxPipelinedBytes;
  return state_ != State::kClosed;
}

void Connection::AwaitReadable() {
  if (read_pending_ || peer_finished_ || state_ == State::kClosed) return;
  if (!WantsInput()) return AwaitHangup();
  read_pending_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code error) {
    self->read_pending_ = false;
    if (!error) self->OnReadable();
  });
}

void Connection::OnReadable() {
  std::size_t taken = 0;
  while (WantsInput() && taken < kReadBudget) {
    error_code error;
    const std::size_t bytes = socket_.read_some(boost::asio::buffer(io_.scratch()), error);
    if (error == boost::asio::error::would_block) break;
    if (error == boost::asio::error::eof) return OnPeerFinished();
    if (error) return Lose(Loss::kClientLeft);
    taken += bytes;
    if (state_ == State::kLingering) continue;
    input_.append(io_.scratch().data(), bytes);
    Advance();
  }
  AwaitReadable();
}

void Connection::OnPeerFinished() {
  peer_finished_ = true;
  if (state_ != State::kAnswering) return Close();  // nothing is owed: no request, or half of one
  AwaitHangup();
  ProbePeer();
}

// The socket reports an error or that both directions are shut.
void Connection::AwaitHangup() {
  if (hangup_pending_ || state_ == State::kClosed) return;
  hangup_pending_ = true;
  socket_.async_wait(Socket::wait_error, [self = shared_from_this()](error_code error) {
    self->hangup_pending_ = false;
    if (!error && self->state_ == State::kAnswering) self->Lose(Loss::kClientLeft);
  });
}

// Is somebody there still? See the top of connection.h. HTTP/1.0 knows no interim answers: such a client
// counts as gone once it has stopped sending.
void Connection::ProbePeer() {
  if (exchange_ == nullptr || !exchange_->cancellable() || answer_ended_) return;
  if (streaming_) {
    OnKeepAlive();
  } else if (version_ == 10) {
    Lose(Loss::kClientLeft);
  } else {
    output_ += kContinue;
    Flush();
    ScheduleSettle();
    ArmKeepAlive(context_.options.keep_alive_interval);
  }
}

void Connection::Advance() {
  if (std::exchange(advancing_, true)) return;
  while (state_ == State::kReading) {
    const std::string_view unread = std::string_view(input_).substr(input_taken_);
    if (parser_ == nullptr) {
      if (unread.empty()) break;
      parser_ = std::make_unique<RequestParser>(
          RequestParser::Limits{.header_bytes = context_.options.max_header_bytes,
                                .body_bytes = static_cast<std::uint64_t>(context_.options.max_request_bytes)},
          context_.body_bytes);
    }
    std::size_t consumed = 0;
    const RequestParser::Progress progress = parser_->Feed(unread, &consumed);
    input_taken_ += consumed;
    if (progress == RequestParser::Progress::kNeedMore) {
      AwaitRest();
      break;
    }
    if (progress == RequestParser::Progress::kHead) {
      OnHead();
    } else if (progress == RequestParser::Progress::kComplete) {
      OnRequest();
    } else {
      Refuse(parser_->error(), true);
    }
  }
  input_.erase(0, std::exchange(input_taken_, 0));
  // Idle connections are many: none keeps a large buffer.
  if (input_.empty() && input_.capacity() > kMaxPipelinedBytes) input_ = std::string();
  advancing_ = false;
}

// Only what does not arrive at once needs a time limit of its own.
void Connection::AwaitRest() {
  const Wait rest = parser_->head_done() ? Wait::kBody : Wait::kHead;
  if (wait_ == rest) return;
  SetDeadline(rest, rest == Wait::kBody ? context_.options.body_timeout : context_.options.header_timeout);
}

void Connection::OnHead() {
  const RequestHead& head = parser_->head();
  request_begin_ = Clock::now();
  match_ = MatchRoute(head.path);
  method_ = head.method;
  method_name_ = head.method_name;
  path_ = head.path;
  version_ = head.version;
  keep_alive_ = head.keep_alive && !over_limit_;
  const std::string* id = head.Find("x-request-id");
  request_id_ = id != nullptr && IsUsableRequestId(*id) ? *id : "";

  const HeadPolicy policy{.max_body_bytes = static_cast<std::uint64_t>(context_.options.max_request_bytes),
                          .body_bytes = context_.body_bytes.get(),
                          .over_connection_limit = over_limit_};
  if (const auto error = CheckHead(head, match_, policy)) {
    const bool body_may_follow =
        head.has_body() || error->status == 411 || head.Find("transfer-encoding") != nullptr;
    return Refuse(*error, body_may_follow);
  }
  if (ExpectsContinue(head) && input_taken_ == input_.size()) {
    output_ += kContinue;
    Flush();
    ScheduleSettle();
  }
}

void Connection::OnRequest() {
  state_ = State::kAnswering;
  wait_ = Wait::kIdle;
  deadline_.cancel();
  Request request;
  request.head = parser_->TakeHead();
  request.body = parser_->TakeBody();
  parser_.reset();
  request.request_id_from_client = !request_id_.empty();
  if (request_id_.empty()) request_id_ = io_.MakeRequestId();
  request.request_id = request_id_;
  if (method_ != Method::kPost) return Respond(AnswerDirectly(match_, method_, context_));
  exchange_ = MakeExchange(match_.route, std::move(request), context_, *this, io_.executor());
  exchange_->Start();
}

// `close`: what else the client sends cannot be told from a new request.
void Connection::Refuse(HttpError error, bool close) {
  state_ = State::kAnswering;
  wait_ = Wait::kIdle;
  deadline_.cancel();
  if (!parser_->head_done()) {
    request_begin_ = Clock::now();
    match_ = {};
    method_ = Method::kOther;
    method_name_ = path_ = request_id_ = "";
  }
  parser_.reset();
  if (request_id_.empty()) request_id_ = io_.MakeRequestId();
  if (close) keep_alive_ = false;
  Respond(ErrorResponse(error));
}

void Connection::SetDeadline(Wait wait, Duration after) {
  wait_ = wait;
  deadline_.expires_after(after);
  deadline_.async_wait([self = shared_from_this()](error_code error) {
    if (!error && Clock::now() >= self->deadline_.expiry()) self->OnDeadline();
  });
}

void Connection::OnDeadline() {
  if (state_ == State::kLingering) return Close();
  if (state_ != State::kReading) return;
  if (wait_ == Wait::kIdle) return Close();
  ++context_.stats.timeouts;
  const auto seconds = [](Duration d) {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d).count());
  };
  const HttpServerOptions& options = context_.options;
  const std::string message =
      wait_ == Wait::kHead
          ? "the request head did not arrive within " + seconds(options.header_timeout) + " s"
          : "the request body did not arrive within " + seconds(options.body_timeout) + " s";
  Refuse({.status = 408, .message = message}, true);
}

}  // namespace skipjack::http
