// One Generate call: carries a request's events to its client, at the client's pace.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/byte_budget.h"
#include "serve/grpc/call_counts.h"
#include "serve/grpc/open_streams.h"
#include "serve/grpc/response_queue.h"
#include "serve/grpc/writer_thread.h"
#include "serve/inference_service.h"
#include "skipjack/v1/inference.grpc.pb.h"

namespace skipjack {

// What the Generate calls of a server share. Outlives them.
struct GenerateContext {
  InferenceService& service;
  OpenStreams& streams;
  CallCounts& counts;
  std::shared_ptr<ByteBudget> waiting_bytes;  // of messages that wait for a worker to read them
  WriterThread& writer;
  std::int64_t max_pending_bytes = 0;  // unsent output of one stream
};

// gRPC owns a reference from Run() until OnDone(), the service one until OnCompleted(). Events come from the
// service's threads, among them the engine's step thread, so what they bring is only noted there; the writer
// thread and gRPC's own write it. One message is being written at a time; what becomes ready meanwhile is
// joined, up to a bound: a client that does not read is cut.
class GenerateStream final : public grpc::ServerWriteReactor<v1::GenerateResponse>,
                             public CompletionListener,
                             public Writable,
                             public std::enable_shared_from_this<GenerateStream> {
 public:
  // `message` is this call's own, and emptied while it is read.
  GenerateStream(const GenerateContext& shared, grpc::CallbackServerContext* context,
                 v1::GenerateRequest* message);

  // Starts the request. Once.
  void Run();
  // Ends the request and, with `why`, the call; false when it was ended or ending already. Any thread.
  bool Cancel(Status why);

  void OnAccepted(Accepted accepted) override;
  void OnDelta(ChoiceDelta delta) override;
  void OnChoiceFinish(ChoiceFinish finish) override;
  void OnCompleted(Completed completed) override;

  void WriteNext() override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // Reads a large chat on a worker: all of its JSON would keep a thread of gRPC from other calls.
  void StartOnWorker();
  void Start();
  void Refuse(const Status& why, std::optional<int> retry_after_seconds = std::nullopt);
  Result<CompletionRequest> Parse();
  // Lets the writer thread write, unless that is seen to.
  void Schedule(std::unique_lock<std::mutex> lock);
  // Writes what is pending, and ends the call after the last of it, unless a write is under way.
  void Flush(std::unique_lock<std::mutex> lock);
  void LogEnd();
  // The client does not read: gives up on it.
  void Cut(std::unique_lock<std::mutex> lock);

  const GenerateContext shared_;
  grpc::CallbackServerContext* const context_;
  v1::GenerateRequest* const message_;
  const TimePoint start_;
  std::string request_id_;                // constant after Run() began
  std::shared_ptr<GenerateStream> self_;  // gRPC's reference
  v1::GenerateResponse in_flight_;        // gRPC's while writing_

  // Never held while gRPC or the service is called.
  std::mutex mutex_;
  std::shared_ptr<CompletionCall> call_;
  std::optional<Status> cancelled_with_;  // also before call_ is known
  ResponseQueue pending_;
  bool scheduled_ = false;  // the writer thread will call
  bool writing_ = false;
  bool unwritable_ = false;          // the client is gone or was cut
  std::optional<grpc::Status> end_;  // the request is over
  bool finishing_ = false;
};

}  // namespace skipjack
