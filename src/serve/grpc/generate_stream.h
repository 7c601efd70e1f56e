// One Generate call: carries a request's events to its client, at the client's pace.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/grpc/open_streams.h"
#include "serve/grpc/response_conversion.h"
#include "serve/inference_service.h"
#include "skipjack/v1/inference.grpc.pb.h"

namespace skipjack {

// gRPC owns a reference from Run() until OnDone(), the service one until OnCompleted(). Events come from the
// service's threads, reactions from gRPC's. One message is being written at a time; what becomes ready
// meanwhile is joined into the next one, up to a bound: a client that does not read is cut.
class GenerateStream final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                             public CompletionListener,
                             public std::enable_shared_from_this<GenerateStream> {
 public:
  GenerateStream(InferenceService& service, OpenStreams& streams, std::int64_t max_pending_bytes,
                 grpc::CallbackServerContext* context);

  // Starts the request. Once.
  void Run(const v1::GenerateRequest& message);
  // Ends the request and, with `why`, the call; false when it was ended or ending already. Any thread.
  bool Cancel(Status why);

  void OnAccepted(Accepted accepted) override;
  void OnDelta(ChoiceDelta delta) override;
  void OnChoiceFinish(ChoiceFinish finish) override;
  void OnCompleted(Completed completed) override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  Result<CompletionRequest> Parse(const v1::GenerateRequest& message);
  // Writes what is pending, and ends the call after the last of it, unless a write is under way.
  void Flush(std::unique_lock<std::mutex> lock);
  void LogEnd();
  // The client does not read: gives up on it.
  void Cut(std::unique_lock<std::mutex> lock);

  InferenceService& service_;
  OpenStreams& streams_;
  const std::int64_t max_pending_bytes_;
  grpc::CallbackServerContext* const context_;
  const TimePoint start_;
  std::string request_id_;                // constant after Run() began
  ResponseOptions options_;               // constant after Run() began
  std::shared_ptr<GenerateStream> self_;  // gRPC's reference
  v1::GenerateResponse in_flight_;        // gRPC's while writing_

  // Never held while gRPC or the service is called.
  std::mutex mutex_;
  std::shared_ptr<CompletionCall> call_;
  std::optional<Status> cancelled_with_;  // also before call_ is known
  v1::GenerateResponse pending_;
  bool has_pending_ = false;
  std::int64_t pending_bytes_ = 0;
  bool writing_ = false;
  bool unwritable_ = false;          // the client is gone or was cut
  std::optional<grpc::Status> end_;  // the request is over
  bool finishing_ = false;
};

}  // namespace skipjack
