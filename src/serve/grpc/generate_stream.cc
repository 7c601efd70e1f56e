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

// What must be read as JSON, in bytes.
std::size_t JsonBytes(const v1::GenerateRequest& message) {
  if (!message.has_chat()) return 0;
  std::size_t bytes = message.chat().variables_json().size();
  for (const v1::ChatMessage& chat : message.chat().messages()) bytes += chat.members_json().size();
  return bytes;
}

bool WaitsForWorker(const v1::GenerateRequest& message) {
  constexpr std::size_t kMostJsonInline = 16 << 10;
  constexpr int kMostMessagesInline = 256;
  return message.chat().messages_size() > kMostMessagesInline || JsonBytes(message) > kMostJsonInline;
}

ResponseOptions OptionsOf(const v1::GenerateRequest& message) {
  return {.prompt_token_ids = message.return_prompt_token_ids(),
          .tokens = message.return_tokens() || message.sampling().has_top_logprobs(),
          .logprobs = message.sampling().has_top_logprobs()};
}

}  // namespace

GenerateStream::GenerateStream(const GenerateContext& shared, grpc::CallbackServerContext* context,
                               v1::GenerateRequest* message)
    : shared_(shared),
      context_(context),
      message_(message),
      start_(std::chrono::steady_clock::now()),
      pending_(OptionsOf(*message)) {}

void GenerateStream::Run() {
  self_ = shared_from_this();
  shared_.streams.Add(this);
  request_id_ = message_->request_id();
  if (request_id_.empty()) request_id_ = RequestIdFrom(*context_);
  if (request_id_.empty()) request_id_ = MakeRequestId();
  SendRequestId(request_id_, context_);
  WaitsForWorker(*message_) ? StartOnWorker() : Start();
}

void GenerateStream::StartOnWorker() {
  auto share = std::make_shared<ByteShare>(shared_.waiting_bytes);
  const bool fits = share->Grow(static_cast<std::int64_t>(message_->ByteSizeLong()));
  const bool queued = fits && shared_.service.RunOnWorker([self = shared_from_this(), share] {
    self->Start();
    share->Release();
  });
  if (!queued) Refuse(TooMuchWaits(), kOverloadRetrySeconds);
}

void GenerateStream::Start() {
  {
    std::unique_lock lock(mutex_);
    if (cancelled_with_) {  // nobody waits for it any more
      const Status why = *cancelled_with_;
      lock.unlock();
      return Refuse(why);
    }
  }
  Result<CompletionRequest> request = Parse();
  if (!request.ok()) return Refuse(request.status());
  std::shared_ptr<CompletionCall> call = shared_.service.Start(*std::move(request), shared_from_this());
  std::unique_lock lock(mutex_);
  if (!end_) call_ = call;
  const std::optional<Status> cancelled_with = cancelled_with_;
  lock.unlock();
  if (cancelled_with) call->Cancel(*cancelled_with);
}

void GenerateStream::Refuse(const Status& why, std::optional<int> retry_after_seconds) {
  OnCompleted({.status = why, .usage = {}, .timings = {}, .retry_after_seconds = retry_after_seconds});
}

Result<CompletionRequest> GenerateStream::Parse() {
  Result<CompletionRequest> request = ToCompletionRequest(message_);
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
  pending_.AddStarted(std::move(accepted));
  Schedule(std::move(lock));
}

void GenerateStream::OnDelta(ChoiceDelta delta) {
  std::unique_lock lock(mutex_);
  if (unwritable_) return;
  pending_.AddDelta(std::move(delta));
  if (pending_.output_bytes() > shared_.max_pending_bytes) {
    Cut(std::move(lock));
  } else {
    Schedule(std::move(lock));
  }
}

void GenerateStream::OnChoiceFinish(ChoiceFinish finish) {
  std::unique_lock lock(mutex_);
  pending_.AddFinish(std::move(finish));
  // OnCompleted or another choice's text follows at once or soon, and takes it along.
}

void GenerateStream::OnCompleted(Completed completed) {
  SendRetryAfter(completed.retry_after_seconds, context_);
  std::unique_lock lock(mutex_);
  if (completed.status.ok()) pending_.AddCompleted(completed);
  end_ = ToGrpcStatus(completed.status);
  call_.reset();
  Schedule(std::move(lock));
}

void GenerateStream::Schedule(std::unique_lock<std::mutex> lock) {
  if (scheduled_ || writing_ || finishing_) return;
  scheduled_ = true;
  lock.unlock();
  shared_.writer.Post(shared_from_this());
}

void GenerateStream::WriteNext() {
  std::unique_lock lock(mutex_);
  scheduled_ = false;
  Flush(std::move(lock));
}

void GenerateStream::Flush(std::unique_lock<std::mutex> lock) {
  if (writing_ || finishing_) return;
  const bool write = !pending_.empty() && !unwritable_;
  if (write) {
    pending_.TakeFirst(&in_flight_);
    writing_ = true;
  }
  // The end goes with the last message; but gRPC drops a message that is written together with an error: then
  // the error follows the write.
  const bool finish = end_ && (!write || (end_->ok() && pending_.empty()));
  finishing_ = finish;
  const grpc::Status end = finish ? *end_ : grpc::Status::OK;
  lock.unlock();
  if (finish) shared_.counts.CountEnd(RpcMethod::kGenerate, end.error_code());
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
  lock.unlock();
  const bool first = Cancel(Status::ResourceExhausted(fmt::format(
      "the client reads too slowly: more than {} bytes of output waited for it", shared_.max_pending_bytes)));
  if (first) ++shared_.streams.cut;
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
    ++shared_.streams.cancelled;
}

void GenerateStream::OnDone() {
  LogEnd();
  shared_.streams.Remove(this);
  self_.reset();  // may end this object
}

void GenerateStream::LogEnd() {
  std::lock_guard lock(mutex_);
  // A client's id may be anything; one that is unfit was refused.
  const std::string id = CheckRequestId(request_id_).ok() ? request_id_ : "(unfit id)";
  const auto code = end_ ? static_cast<StatusCode>(end_->error_code()) : StatusCode::kUnknown;
  auto level = spdlog::level::info;
  if (code == StatusCode::kResourceExhausted || code == StatusCode::kUnavailable) {
    const LogLimiter::Decision decision = shared_.streams.refusal_lines().Take();
    if (decision.left_out > 0) spdlog::info("grpc: {} more calls were refused since", decision.left_out);
    if (!decision.write) level = spdlog::level::debug;
  }
  spdlog::log(level, "grpc Generate {} {:.1f} ms {}", StatusCodeName(code),
              ToSeconds(std::chrono::steady_clock::now() - start_) * 1e3, id);
}

}  // namespace skipjack
