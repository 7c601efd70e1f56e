#include "serve/inference_service.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <utility>

#include "base/thread_pool.h"
#include "base/timer_thread.h"
#include "serve/completion_session.h"
#include "serve/prompt_builder.h"
#include "serve/request_explanation.h"
#include "serve/request_table.h"
#include "serve/request_validation.h"
#include "serve/worker_watch.h"

namespace skipjack {
namespace {

// Work other than requests (Tokenize calls) that may wait for a worker.
constexpr std::size_t kExtraQueuedWork = 64;
// So that adding a time-out to a time point cannot overflow.
constexpr Duration kLongestTimeout = std::chrono::hours(24 * 365);

// Of a request that ended before it began.
class EndedCall final : public CompletionCall {
 public:
  void Cancel(Status /*why*/) override {}
};

std::optional<int> RetryAfter(const Status& status) {
  if (status.code() != StatusCode::kUnavailable) return std::nullopt;
  return kUnavailableRetrySeconds;
}

struct AtomicRefusals {
  std::atomic<std::uint64_t> queue_full{0}, prompt_bytes{0}, draining{0}, not_serving{0}, not_found{0},
      invalid{0};

  // What Check() found.
  void Count(const Status& status) {
    switch (status.code()) {
      case StatusCode::kUnavailable:
        ++not_serving;
        break;
      case StatusCode::kNotFound:
        ++not_found;
        break;
      default:
        ++invalid;
    }
  }
};

ModelInfo Describe(const ServedModel& model) {
  return {.name = model.name,
          .created_unix_seconds = model.created_unix_seconds,
          .context_length = model.context_length,
          .vocabulary = model.config.vocabulary_rows,
          .architecture = model.config.architecture,
          .description = model.description,
          .ready = model.engine->Health().ok(),
          .has_chat_template = model.chat_template != nullptr};
}

class Service final : public InferenceService {
 public:
  Service(ModelRegistry& registry, const InferenceServiceOptions& options)
      : registry_(registry),
        options_(options),
        clock_(options.clock ? *options.clock : system_clock_),
        table_(options.max_live_requests),
        watch_(clock_, options.worker_stall),
        timer_(clock_),
        workers_("tokenize", options.worker_threads,
                 static_cast<std::size_t>(options.max_live_requests) + kExtraQueuedWork) {}

  ~Service() override {
    draining_ = true;
    for (const auto& session : table_.Oldest(SIZE_MAX)) {
      session->Cancel(Status::Unavailable("the server is shutting down"));
    }
    table_.WaitUntilEmpty();
  }

  std::shared_ptr<CompletionCall> Start(CompletionRequest request,
                                        std::shared_ptr<CompletionListener> listener) override {
    if (draining_) {
      ++refusals_.draining;
      return RefuseAtOnce(DrainingStatus(), kUnavailableRetrySeconds, std::move(listener));
    }
    const std::optional<RequestTable::Key> key = table_.Enter();
    if (!key) {
      ++refusals_.queue_full;
      return RefuseAtOnce(Overloaded(fmt::format("{} requests are live, which is the limit (max_queued)",
                                                 options_.max_live_requests)),
                          table_.RetryAfterSeconds(), std::move(listener));
    }
    if (request.request_id.empty()) request.request_id = MakeRequestId();
    auto session = std::make_shared<CompletionSession>(IdentityOf(*key, request), std::move(listener), table_,
                                                       timer_, clock_);
    table_.Put(*key, session);
    session->WatchDeadline();
    Enqueue(session, std::move(request));
    return session;
  }

  Result<TokenizeResult> Tokenize(const std::string& model_name, const Prompt& prompt,
                                  bool add_special_tokens, bool parse_special) override {
    const Result<std::shared_ptr<ServedModel>> model = registry_.Find(model_name);
    if (!model.ok()) return model.status();
    const ServedModel& served = **model;
    if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt); ids && !ids->empty()) {
      if (Status s = CheckPromptIds(*ids, served.config.vocabulary_rows); !s.ok()) return s;
    }
    Result<std::vector<TokenId>> tokens = BuildPrompt(served, prompt, {add_special_tokens, parse_special});
    if (!tokens.ok()) return tokens.status();
    TokenizeResult result{.tokens = *std::move(tokens), .pieces = {}};
    result.pieces.reserve(result.tokens.size());
    for (const TokenId id : result.tokens) result.pieces.emplace_back(served.tokenizer->TokenBytes(id));
    return result;
  }

  Result<std::string> Detokenize(const std::string& model_name, const std::vector<std::int64_t>& tokens,
                                 bool skip_special_tokens) override {
    const Result<std::shared_ptr<ServedModel>> model = registry_.Find(model_name);
    if (!model.ok()) return model.status();
    const std::int32_t rows = (*model)->config.vocabulary_rows;
    std::vector<TokenId> ids;
    ids.reserve(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] < 0 || tokens[i] >= rows) {
        return Status::InvalidArgument(
            fmt::format("tokens[{}] must lie in [0, {}], got {}", i, rows - 1, tokens[i]));
      }
      ids.push_back(static_cast<TokenId>(tokens[i]));
    }
    return (*model)->tokenizer->Decode(ids, skip_special_tokens);
  }

  bool RunOnWorker(std::function<void()> work) override {
    const WorkerWatch::Ticket ticket = watch_.Posted();
    const bool queued = workers_.TryPost([this, ticket, work = std::move(work)] {
      work();
      watch_.Done(ticket);
    });
    if (!queued) watch_.Done(ticket);
    return queued;
  }

  std::vector<ModelInfo> ListModels() const override {
    std::vector<ModelInfo> models;
    for (const ModelStatus& status : registry_.Statuses()) {
      Result<ModelInfo> info = GetModel(status.name);
      if (info.ok()) models.push_back(*std::move(info));
    }
    return models;
  }

  Result<ModelInfo> GetModel(const std::string& name) const override {
    const Result<std::shared_ptr<ServedModel>> model = registry_.Find(name);
    if (model.ok()) return Describe(**model);
    if (model.status().code() == StatusCode::kNotFound) return model.status();
    ModelInfo info;
    info.name = name;
    return info;
  }

  Status CancelById(const std::string& request_id) override {
    const auto sessions = table_.WithId(request_id);
    if (sessions.empty()) return NoSuchRequest(request_id);
    for (const auto& session : sessions) session->Cancel(Status::Cancelled("cancelled by the operator"));
    return {};
  }

  std::int32_t LiveRequests() const override { return table_.live(); }

  std::vector<LiveRequest> ListRequests(std::size_t limit) const override {
    std::vector<LiveRequest> requests;
    for (const auto& session : table_.Oldest(limit)) requests.push_back(session->Describe());
    return requests;
  }

  Result<std::vector<RequestExplanation>> Explain(const std::string& request_id,
                                                  std::size_t limit) const override {
    const auto live = table_.Oldest(SIZE_MAX);
    std::vector<std::shared_ptr<CompletionSession>> asked;
    for (const auto& session : live) {
      if (asked.size() >= limit) break;
      if (request_id.empty() || session->request_id() == request_id) asked.push_back(session);
    }
    if (asked.empty() && !request_id.empty()) return NoSuchRequest(request_id);
    return ExplainSessions(asked, live);
  }

  RefusalCounts Refusals() const override {
    return {.queue_full = refusals_.queue_full,
            .prompt_bytes = refusals_.prompt_bytes,
            .draining = refusals_.draining,
            .not_serving = refusals_.not_serving,
            .not_found = refusals_.not_found,
            .invalid = refusals_.invalid};
  }

  Status Ready() const override {
    if (draining_) return DrainingStatus();
    if (Status health = registry_.Health(); !health.ok()) return health;
    return watch_.Health();
  }
  void BeginDrain() override { draining_ = true; }
  bool draining() const override { return draining_; }

 private:
  static Status DrainingStatus() { return Status::Unavailable("the server is draining: no new requests"); }
  static Status NoSuchRequest(const std::string& request_id) {
    return Status::NotFound(fmt::format("no live request has the id '{}'", request_id));
  }
  static Status Overloaded(const std::string& what) {
    return Status::ResourceExhausted("the server is overloaded: " + what);
  }

  std::shared_ptr<CompletionCall> RefuseAtOnce(Status why, int retry_after_seconds,
                                               std::shared_ptr<CompletionListener> listener) {
    timer_.Post([listener = std::move(listener), why = std::move(why), retry_after_seconds] {
      listener->OnCompleted(
          {.status = why, .usage = {}, .timings = {}, .retry_after_seconds = retry_after_seconds});
    });
    static const auto ended = std::make_shared<EndedCall>();
    return ended;
  }

  CompletionSession::Identity IdentityOf(RequestTable::Key key, const CompletionRequest& request) const {
    CompletionSession::Identity identity{.key = key,
                                         .request_id = request.request_id,
                                         .model = request.model,
                                         .tenant = request.tenant,
                                         .cache_salt = CacheSalt(request),
                                         .priority = request.priority,
                                         .timeline = request.timeline,
                                         .start = clock_.Now(),
                                         .deadline = std::nullopt};
    Duration timeout = request.timeout.value_or(kLongestTimeout);
    if (options_.max_timeout > Duration::zero()) timeout = std::min(timeout, options_.max_timeout);
    // One that is not positive is refused by CheckRequestFields().
    if (timeout < kLongestTimeout && timeout > Duration::zero()) identity.deadline = identity.start + timeout;
    return identity;
  }

  void Enqueue(const std::shared_ptr<CompletionSession>& session, CompletionRequest request) {
    const auto bytes = static_cast<std::int64_t>(PromptBytes(request.prompt));
    const bool fits = pending_prompt_bytes_.fetch_add(bytes) + bytes <= options_.max_pending_prompt_bytes;
    // std::function copies what it holds.
    auto shared = std::make_shared<CompletionRequest>(std::move(request));
    if (fits && RunOnWorker([this, session, bytes, shared] { Prepare(*session, *shared, bytes); })) return;
    pending_prompt_bytes_ -= bytes;
    ++refusals_.prompt_bytes;
    timer_.Post([this, session] {
      session->Refuse(Overloaded("too much text waits for tokenising"), table_.RetryAfterSeconds());
    });
  }

  // On a worker. `pending_bytes`: what the request holds of the room for prompts that wait for a worker.
  void Prepare(CompletionSession& session, const CompletionRequest& request, std::int64_t pending_bytes) {
    if (!session.wanted()) {
      pending_prompt_bytes_ -= pending_bytes;
      return;
    }
    Result<PreparedCompletion> prepared = Check(request);
    // Before the outcome shows: whoever sees it may rely on the room.
    pending_prompt_bytes_ -= pending_bytes;
    if (prepared.ok()) {
      session.Submit(*std::move(prepared));
    } else {
      refusals_.Count(prepared.status());
      session.Refuse(prepared.status(), RetryAfter(prepared.status()));
    }
  }

  Result<PreparedCompletion> Check(const CompletionRequest& request) const {
    if (Status s = CheckRequestFields(request); !s.ok()) return s;
    Result<std::shared_ptr<ServedModel>> model = registry_.Find(request.model);
    if (!model.ok()) return model.status();
    const ServedModel& served = **model;
    const std::int32_t rows = served.config.vocabulary_rows;
    Result<CheckedParameters> parameters = CheckParameters(request, served.sampled_ids(), options_.max_n);
    if (!parameters.ok()) return parameters.status();
    if (!request.ignore_eos) parameters->output.end_strings = served.end_strings;
    Result<std::vector<TokenId>> prompt = BuildPrompt(
        served, request.prompt,
        {.add_special_tokens = request.add_special_tokens, .context_length = served.context_length});
    if (!prompt.ok()) return prompt.status();
    if (Status s = CheckPromptIds(*prompt, rows); !s.ok()) return s;
    const Result<std::int32_t> max_tokens = ResolveMaxTokens(request, prompt->size(), served.context_length);
    if (!max_tokens.ok()) return max_tokens.status();
    parameters->sampling.max_tokens = *max_tokens;
    return PreparedCompletion{.model = *std::move(model),
                              .prompt = *std::move(prompt),
                              .sampling = std::move(parameters->sampling),
                              .choices = parameters->choices,
                              .output = std::move(parameters->output)};
  }

  ModelRegistry& registry_;
  const InferenceServiceOptions options_;
  const SystemClock system_clock_;
  const Clock& clock_;
  RequestTable table_;
  std::atomic<bool> draining_{false};
  std::atomic<std::int64_t> pending_prompt_bytes_{0};
  AtomicRefusals refusals_;
  WorkerWatch watch_;
  TimerThread timer_;
  ThreadPool workers_;  // last: its work uses everything above
};

}  // namespace

std::unique_ptr<InferenceService> CreateInferenceService(ModelRegistry& registry,
                                                         const InferenceServiceOptions& options) {
  return std::make_unique<Service>(registry, options);
}

std::string MakeRequestId() {
  thread_local std::mt19937_64 generator = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  const std::uint64_t high = generator();
  const std::uint64_t low = generator();
  return fmt::format("req-{:016x}{:016x}", high, low);
}

}  // namespace skipjack
