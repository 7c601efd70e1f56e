#include "serve/grpc/generate_stream.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "serve/grpc/request_conversion.h"
#include "serve/grpc/rpc_support.h"
#include "serve/request_validation.h"

namespace skipjack {
namespace {

// The call's deadline as a time from now, where it has one.
std::optional<Duration> TimeLeft(const grpc::ServerContextBase& context) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  // Without a deadline it is the end of time, from which a later now could not be subtracted.
  if (deadline - std::chrono::hours(24 * 365) > now) return std::nullopt;
  return std::max<Duration>(deadline - now, Duration(1));
}

}  // namespace

GenerateStream::GenerateStream(InferenceService& service, OpenStreams& streams,
                               std::int64_t max_pending_bytes, grpc::CallbackServerContext* context)
    : service_(service),
      streams_(streams),
      max_pending_bytes_(max_pending_bytes),
      context_(context),
      start_(std::chrono::steady_clock::now()) {}

void GenerateStream::Run(const v1::GenerateRequest& message) {
  self_ = shared_from_this();
  streams_.Add(this);
  options_ = {.prompt_token_ids = message.return_prompt_token_ids(),
              .tokens = message.return_tokens() || message.sampling().has_top_logprobs(),
              .logprobs = message.sampling().has_top_logprobs()};
  Result<CompletionRequest> request = Parse(message);
  if (!request.ok()) {
    OnCompleted({.status = request.status(), .usage = {}, .timings = {}, .retry_after_seconds = {}});
    return;
  }
  std::shared_ptr<CompletionCall> call = service_.Start(*std::move(request), shared_from_this());
  std::unique_lock lock(mutex_);
  call_ = call;
  const std::optional<Status> cancelled_with = cancelled_with_;
  lock.unlock();
  if (cancelled_with) call->Cancel(*cancelled_with);
}

Result<CompletionRequest> GenerateStream::Parse(const v1::GenerateRequest& message) {
  request_id_ = message.request_id();
  if (request_id_.empty()) request_id_ = RequestIdFrom(*context_);
  if (request_id_.empty()) request_id_ = MakeRequestId();
  SendRequestId(request_id_, context_);
  Result<CompletionRequest> request = ToCompletionRequest(message);
  if (!request.ok()) return request;
  request->request_id = request_id_;
  if (const std::optional<Duration> left = TimeLeft(*context_)) {
    request->timeout = std::min(request->timeout.value_or(*left), *left);
  }
  return request;
}

bool GenerateStream::Cancel(Status why) {
  std::unique_lock lock(mutex_);
  if (cancelled_with_ || end_) return false;
  cancelled_with_ = why;
  const std::shared_ptr<CompletionCall> call = call_;
  lock.unlock();
  if (call) call->Cancel(std::move(why));
  return true;
}

void GenerateStream::OnAccepted(Accepted accepted) {
  std::unique_lock lock(mutex_);
  AddStarted(std::move(accepted), options_, &pending_);
  has_pending_ = true;
  Flush(std::move(lock));
}

void GenerateStream::OnDelta(ChoiceDelta delta) {
  std::unique_lock lock(mutex_);
  if (unwritable_) return;
  pending_bytes_ += static_cast<std::int64_t>(AddDelta(std::move(delta), options_, &pending_));
  has_pending_ = true;
  if (pending_bytes_ > max_pending_bytes_) {
    Cut(std::move(lock));
  } else {
    Flush(std::move(lock));
  }
}

void GenerateStream::OnChoiceFinish(ChoiceFinish finish) {
  std::unique_lock lock(mutex_);
  AddFinish(std::move(finish), &pending_);
  has_pending_ = true;
  // OnCompleted or another choice's text follows at once or soon, and takes it along.
}

void GenerateStream::OnCompleted(Completed completed) {
  SendRetryAfter(completed.retry_after_seconds, context_);
  std::unique_lock lock(mutex_);
  if (completed.status.ok()) {
    AddCompleted(completed, &pending_);
    has_pending_ = true;
  }
  end_ = ToGrpcStatus(completed.status);
  call_.reset();
  Flush(std::move(lock));
}

void GenerateStream::Flush(std::unique_lock<std::mutex> lock) {
  if (writing_ || finishing_) return;
  const bool write = has_pending_ && !unwritable_;
  if (write) {
    // Cleared messages keep their memory, so two of them go to and fro.
    in_flight_.Clear();
    in_flight_.Swap(&pending_);
    has_pending_ = false;
    pending_bytes_ = 0;
    writing_ = true;
  }
  // gRPC drops a message that is written together with an error: then the error follows the write.
  const bool finish = end_ && (!write || end_->ok());
  finishing_ = finish;
  const grpc::Status end = finish ? *end_ : grpc::Status::OK;
  lock.unlock();
  if (write && finish) {
    StartWriteAndFinish(&in_flight_, {}, end);
  } else if (write) {
    StartWrite(&in_flight_);
  } else if (finish) {
    Finish(end);
  }
}

void GenerateStream::Cut(std::unique_lock<std::mutex> lock) {
  unwritable_ = true;
  pending_.Clear();
  has_pending_ = false;
  lock.unlock();
  const bool first = Cancel(Status::ResourceExhausted(fmt::format(
      "the client reads too slowly: more than {} bytes of output waited for it", max_pending_bytes_)));
  if (first) ++streams_.cut;
  // The write under way would wait for the client for ever; a status could not overtake it.
  context_->TryCancel();
}

void GenerateStream::OnWriteDone(bool ok) {
  std::unique_lock lock(mutex_);
  writing_ = false;
  if (ok) {
    Flush(std::move(lock));
    return;
  }
  unwritable_ = true;
  lock.unlock();
  Cancel(Status::Cancelled("the client is gone"));
  Flush(std::unique_lock(mutex_));
}

void GenerateStream::OnCancel() {
  // A client that gives up at its deadline looks the same from here; it knows by itself why.
  if (Cancel(Status::Cancelled("the client cancelled the call, ran out of time or went away")))
    ++streams_.cancelled;
}

void GenerateStream::OnDone() {
  LogEnd();
  streams_.Remove(this);
  self_.reset();  // may end this object
}

void GenerateStream::LogEnd() {
  std::lock_guard lock(mutex_);
  // A client's id may be anything; one that is unfit was refused.
  const std::string id = CheckRequestId(request_id_).ok() ? request_id_ : "(unfit id)";
  const auto code = end_ ? static_cast<StatusCode>(end_->error_code()) : StatusCode::kUnknown;
  spdlog::info("grpc Generate {} {:.1f} ms {}", StatusCodeName(code),
               ToSeconds(std::chrono::steady_clock::now() - start_) * 1e3, id);
}

}  // namespace skipjack
