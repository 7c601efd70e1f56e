#include "tests/unit/serve/http/fake_inference_service.h"

#include <chrono>
#include <stdexcept>

namespace skipjack::http {
namespace {

// Longer than anything takes, so that a failing test ends instead of hanging.
constexpr std::chrono::seconds kGiveUp(60);

}  // namespace

void FakeCall::Cancel(Status why) {
  const std::lock_guard lock(mutex_);
  if (!cancelled_) cancelled_ = std::move(why);
  changed_.notify_all();
}

Status FakeCall::AwaitCancel() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kGiveUp, [this] { return cancelled_.has_value(); })) {
    throw std::runtime_error("the call was not cancelled");
  }
  return *cancelled_;
}

bool FakeCall::cancelled() const {
  const std::lock_guard lock(mutex_);
  return cancelled_.has_value();
}

void FakeCall::Accept(std::vector<TokenId> prompt_tokens) {
  prompt_tokens_ = static_cast<std::int32_t>(prompt_tokens.size());
  listener_->OnAccepted({.request_id = request.request_id,
                         .model = request.model.empty() ? "tiny" : request.model,
                         .created_unix_seconds = 1700000000,
                         .prompt_tokens = std::move(prompt_tokens)});
}

void FakeCall::Text(std::string text, std::int32_t choice) {
  ++sent_tokens_;
  TokenPiece piece{.id = 100 + sent_tokens_, .bytes = text, .logprob = -0.5f, .top = {}, .ends_text = false};
  listener_->OnDelta({.choice = choice, .text = std::move(text), .tokens = {std::move(piece)}});
}

void FakeCall::Finish(FinishReason reason, std::int32_t choice, std::string stop_string,
                      std::optional<TokenId> stop_token) {
  listener_->OnChoiceFinish({.choice = choice,
                             .reason = reason,
                             .stop_string = std::move(stop_string),
                             .stop_token = stop_token,
                             .generated_tokens = sent_tokens_});
}

void FakeCall::Complete() {
  Completed completed;
  completed.usage = {.prompt_tokens = prompt_tokens_, .completion_tokens = sent_tokens_, .cached_tokens = 2};
  completed.timings = {.queue_seconds = 0.25,
                       .prefill_seconds = 0.5,
                       .decode_seconds = 1.5,
                       .cached_tokens = 2,
                       .preemptions = 1};
  listener_->OnCompleted(std::move(completed));
}

void FakeCall::Fail(Status status, std::optional<int> retry_after) {
  Completed completed;
  completed.status = std::move(status);
  completed.retry_after_seconds = retry_after;
  listener_->OnCompleted(std::move(completed));
}

FakeInferenceService::FakeInferenceService() : worker_([this] { Work(); }) {}

FakeInferenceService::~FakeInferenceService() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  worker_.join();
}

void FakeInferenceService::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

void FakeInferenceService::Enqueue(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(work));
  changed_.notify_all();
}

std::shared_ptr<FakeCall> FakeInferenceService::TakeCall() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, kGiveUp, [this] { return !calls_.empty(); })) {
    throw std::runtime_error("no call arrived");
  }
  auto call = calls_.front();
  calls_.pop_front();
  return call;
}

std::size_t FakeInferenceService::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

void FakeInferenceService::AnswerWith(std::function<void(std::shared_ptr<FakeCall>)> answer) {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
}

std::shared_ptr<CompletionCall> FakeInferenceService::Start(CompletionRequest request,
                                                            std::shared_ptr<CompletionListener> listener) {
  auto call = std::make_shared<FakeCall>(std::move(request), std::move(listener));
  std::function<void(std::shared_ptr<FakeCall>)> answer;
  {
    const std::lock_guard lock(mutex_);
    ++started_;
    answer = answer_;
    if (!answer) calls_.push_back(call);
    changed_.notify_all();
  }
  if (answer) Enqueue([answer, call] { answer(call); });
  return call;
}

Result<TokenizeResult> FakeInferenceService::Tokenize(const std::string&, const Prompt& prompt,
                                                      bool add_special_tokens, bool parse_special) {
  TokenizeResult result;
  if (add_special_tokens) {
    result.tokens.push_back(1);
    result.pieces.push_back("<s>");
  }
  if (parse_special) {
    result.tokens.push_back(2);
    result.pieces.push_back("<special>");
  }
  const std::string text = std::holds_alternative<std::string>(prompt)
                               ? std::get<std::string>(prompt)
                               : std::get<ChatPrompt>(prompt).variables.dump();
  for (const char c : text) {  // one token per byte
    result.tokens.push_back(static_cast<unsigned char>(c));
    result.pieces.emplace_back(1, c);
  }
  return result;
}

Result<std::string> FakeInferenceService::Detokenize(const std::string& model,
                                                     const std::vector<std::int64_t>& tokens,
                                                     bool skip_special_tokens) {
  if (model == "absent") return Status::NotFound("model 'absent' does not exist; there is: tiny");
  std::string text = skip_special_tokens ? "" : "<s>";
  for (const std::int64_t token : tokens) {
    if (token < 0 || token > 255)
      return Status::OutOfRange("tokens must lie in [0, 255], got " + std::to_string(token));
    text += static_cast<char>(token);
  }
  return text;
}

bool FakeInferenceService::RunOnWorker(std::function<void()> work) {
  if (workers_full) return false;
  ++worker_jobs;
  Enqueue(std::move(work));
  return true;
}

std::vector<ModelInfo> FakeInferenceService::ListModels() const {
  return {{.name = "tiny",
           .created_unix_seconds = 1700000000,
           .context_length = 2048,
           .vocabulary = 256,
           .architecture = "llama",
           .description = "a model of the tests",
           .ready = true,
           .has_chat_template = true}};
}

Result<ModelInfo> FakeInferenceService::GetModel(const std::string& name) const {
  if (name == "tiny" || name.empty()) return ListModels().front();
  return Status::NotFound("model '" + name + "' does not exist; there is: tiny");
}

Status FakeInferenceService::CancelById(const std::string&) {
  return Status::NotFound("no such request");
}

Status FakeInferenceService::Ready() const {
  const std::lock_guard lock(mutex_);
  return ready_;
}

void FakeInferenceService::SetReady(Status status) {
  const std::lock_guard lock(mutex_);
  ready_ = std::move(status);
}

}  // namespace skipjack::http
