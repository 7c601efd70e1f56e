// An InferenceService without an engine: tests see every call that arrives and play its events by hand.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/inference_service.h"

namespace skipjack::http {

// One Start(), from the engine's side.
class FakeCall final : public CompletionCall {
 public:
  FakeCall(CompletionRequest arrived, std::shared_ptr<CompletionListener> listener)
      : request(std::move(arrived)), listener_(std::move(listener)) {}

  void Cancel(Status why) override;
  // Why the front end gave the call up; waits until it does. Throws after a long time.
  Status AwaitCancel();
  bool cancelled() const;

  // Events, as the engine's thread would send them.
  void Accept(std::vector<TokenId> prompt_tokens = {1, 2, 3});
  void Text(std::string text, std::int32_t choice = 0);  // one token per piece of text
  void Delta(ChoiceDelta delta) { listener_->OnDelta(std::move(delta)); }
  void Finish(FinishReason reason = FinishReason::kStop, std::int32_t choice = 0,
              std::string stop_string = "", std::optional<TokenId> stop_token = std::nullopt);
  void Complete();  // ok, with usage from what was sent
  void Complete(Completed completed) { listener_->OnCompleted(std::move(completed)); }
  void Fail(Status status, std::optional<int> retry_after = std::nullopt);

  const CompletionRequest request;

 private:
  const std::shared_ptr<CompletionListener> listener_;
  std::int32_t prompt_tokens_ = 0;
  std::int32_t sent_tokens_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Status> cancelled_;
};

class FakeInferenceService final : public InferenceService {
 public:
  FakeInferenceService();
  ~FakeInferenceService() override;

  // The next call that has not been taken yet; waits for it. Throws after a long time.
  std::shared_ptr<FakeCall> TakeCall();
  std::size_t started() const;

  // Called with every new call, on a thread of the service, instead of keeping it for TakeCall.
  void AnswerWith(std::function<void(std::shared_ptr<FakeCall>)> answer);

  std::shared_ptr<CompletionCall> Start(CompletionRequest request,
                                        std::shared_ptr<CompletionListener> listener) override;
  Result<TokenizeResult> Tokenize(const std::string& model, const Prompt& prompt, bool add_special_tokens,
                                  bool parse_special) override;
  Result<std::string> Detokenize(const std::string& model, const std::vector<std::int64_t>& tokens,
                                 bool skip_special_tokens) override;
  bool RunOnWorker(std::function<void()> work) override;
  std::vector<ModelInfo> ListModels() const override;
  Result<ModelInfo> GetModel(const std::string& name) const override;
  Status CancelById(const std::string& request_id) override;
  std::int32_t LiveRequests() const override { return 0; }
  RefusalCounts Refusals() const override { return {}; }
  std::vector<LiveRequest> ListRequests(std::size_t) const override { return {}; }
  Result<std::vector<RequestExplanation>> Explain(const std::string&, std::size_t) const override {
    return std::vector<RequestExplanation>{};
  }
  Status Ready() const override;
  void BeginDrain() override {}
  bool draining() const override { return false; }

  void SetReady(Status status);
  std::atomic<bool> workers_full = false;
  std::atomic<int> worker_jobs = 0;

 private:
  void Work();
  void Enqueue(std::function<void()> work);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<FakeCall>> calls_;
  std::size_t started_ = 0;
  std::function<void(std::shared_ptr<FakeCall>)> answer_;
  Status ready_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace skipjack::http
