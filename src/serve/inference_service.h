// What both front ends (gRPC, HTTP) speak to: parsed requests in, events out. Everything about a request is
// checked here, once, and by the same rules for both protocols. Knows neither protocol.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "engine/engine.h"
#include "registry/model_registry.h"
#include "sampling/sampling_params.h"

namespace skipjack {

struct ChatPrompt {
  nlohmann::ordered_json variables;  // in the order sent: messages, tools, add_generation_prompt, ... as the
                                     // chat template sees them. continue_final_message: true also cuts the
                                     // rendered chat behind the last message's text.
};

using Prompt = std::variant<std::string, std::vector<TokenId>, ChatPrompt>;

// As a client sent it: syntax checked, values not. Integers are 64 bits wide so that a value out of range is
// seen and named rather than wrapped.
struct CompletionRequest {
  std::string request_id;  // the client's, or empty: made here
  std::string model;       // empty: the only model there is
  Prompt prompt;
  bool add_special_tokens = true;

  std::optional<double> temperature, top_p, min_p, typical_p;
  std::optional<std::int64_t> top_k;
  std::optional<double> repetition_penalty, presence_penalty, frequency_penalty;
  std::vector<std::pair<std::int64_t, double>> logit_bias;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> max_tokens;  // absent: 16 for completions, the rest of the context for chat
  std::optional<std::int64_t> min_tokens;
  std::optional<std::int64_t> n;
  std::optional<std::int64_t> top_logprobs;  // absent: none
  bool ignore_eos = false;
  std::optional<std::int64_t> end_after_tokens;  // for load tests; absent: never
  std::vector<std::string> stop;
  std::vector<std::int64_t> stop_token_ids;
  bool include_stop_string = false;
  bool skip_special_tokens = true;

  std::string tenant;
  std::string cache_salt;  // parts the tenant's prefix cache further; empty: not
  PriorityClass priority = PriorityClass::kInteractive;
  std::optional<Duration> timeout;  // from now; the whole request
  bool timeline = false;            // record what happens to each choice, for Completed
};

struct TokenPiece {
  TokenId id = 0;
  std::string bytes;  // raw, may be part of a character
  float logprob = 0;
  struct Alternative {
    TokenId id = 0;
    std::string bytes;
    float logprob = 0;
  };
  std::vector<Alternative> top;
  bool ends_text =
      false;  // an end-of-generation or stop token: generated and counted, but not part of the text
};

// Released output of one choice: text is valid UTF-8; `tokens` are those whose text ended inside it.
struct ChoiceDelta {
  std::int32_t choice = 0;
  std::string text;
  std::vector<TokenPiece> tokens;
};

struct ChoiceFinish {
  std::int32_t choice = 0;
  FinishReason reason = FinishReason::kStop;  // kStop or kLength; failures end the whole request
  std::string stop_string;                    // the one that matched, if any
  std::optional<TokenId> stop_token;          // the end-of-generation or stop id that ended it, if any
  std::int32_t generated_tokens = 0;
};

struct Usage {
  std::int32_t prompt_tokens = 0;      // once, also with several choices
  std::int32_t completion_tokens = 0;  // over all choices
  std::int32_t cached_tokens = 0;      // prompt tokens that every choice took from the prefix cache
};

struct Accepted {
  std::string request_id;
  std::string model;
  std::int64_t created_unix_seconds = 0;
  std::vector<TokenId> prompt_tokens;
};

struct ChoiceTimeline {
  std::int32_t choice = 0;
  std::shared_ptr<const Timeline> timeline;  // never null
};

struct Completed {
  Status status;  // ok, or why the request failed (after OnAccepted or instead of it)
  Usage usage;
  Timings timings;  // of the slowest choice
  std::optional<int> retry_after_seconds;
  std::vector<ChoiceTimeline> timelines = {};  // where the request asked for them; in the order of choices
};

// Order: OnAccepted, any number of OnDelta / OnChoiceFinish, OnCompleted; or OnCompleted alone. Calls are
// serialised, come from Skipjack's threads (never from inside Start) and must return at once.
class CompletionListener {
 public:
  virtual ~CompletionListener() = default;
  virtual void OnAccepted(Accepted accepted) = 0;
  virtual void OnDelta(ChoiceDelta delta) = 0;
  virtual void OnChoiceFinish(ChoiceFinish finish) = 0;
  virtual void OnCompleted(Completed completed) = 0;
};

// A running request. Dropping the handle does not cancel it.
class CompletionCall {
 public:
  virtual ~CompletionCall() = default;
  // Idempotent, from any thread; OnCompleted still comes.
  virtual void Cancel(Status why) = 0;
};

struct ModelInfo {
  std::string name;
  std::int64_t created_unix_seconds = 0;
  std::int32_t context_length = 0;
  std::int32_t vocabulary = 0;
  std::string architecture;
  std::string description;
  bool ready = false;
  bool has_chat_template = false;
};

struct TokenizeResult {
  std::vector<TokenId> tokens;
  std::vector<std::string> pieces;  // raw bytes of each
};

// One live request, for operators.
struct LiveRequest {
  std::string request_id;
  std::string model;
  std::string tenant;
  Duration age{};
  std::int32_t prompt_tokens = 0;     // 0 until the prompt is tokenised
  std::int32_t generated_tokens = 0;  // over all choices
};

// Of one choice that has not ended.
struct ChoiceExplanation {
  std::int32_t choice = 0;
  SequenceExplanation sequence;
  std::string sentence;  // all of it for people
  // Whose sequences `sequence` speaks of; empty where it speaks of none, or of one that has ended.
  std::string other_request_id;         // behind which it waits, or which computes its prefix
  std::string preempted_by_request_id;  // that took its place
};

// Why a live request waits, runs or was preempted.
struct RequestExplanation {
  LiveRequest request;
  bool submitted = false;  // not while it waits for tokenising
  std::vector<ChoiceExplanation> choices;
};

struct InferenceServiceOptions {
  std::int32_t max_live_requests =
      1024;                      // limits.max_queued: accepted and not finished, waiting ones included
  std::int32_t max_n = 8;        // limits.max_n
  Duration max_timeout{};        // limits.request_timeout: bounds every request's; 0: none
  int worker_threads = 2;        // for tokenising
  const Clock* clock = nullptr;  // the engines'; nullptr: the system's
  // Prompt bytes that may wait for tokenising; beyond, requests are refused with RESOURCE_EXHAUSTED.
  std::int64_t max_pending_prompt_bytes = 256ll << 20;
  // Work for the tokenising workers that is older than this makes Ready() false.
  Duration worker_stall = std::chrono::seconds(30);
};

// Requests that were refused before they reached an engine, since the start, by reason. What an engine
// refuses is in its EngineStats.
struct RefusalCounts {
  std::uint64_t queue_full = 0;    // max_live_requests are live
  std::uint64_t prompt_bytes = 0;  // too much text waits for tokenising
  std::uint64_t draining = 0;
  std::uint64_t not_serving = 0;  // the model is loading or failed to load
  std::uint64_t not_found = 0;    // there is no such model
  std::uint64_t invalid = 0;      // everything about the request itself
};

class InferenceService {
 public:
  // Live requests are ended with UNAVAILABLE, and their OnCompleted has returned, before this returns.
  virtual ~InferenceService() = default;

  // Never blocks and never fails by itself: refusals arrive through OnCompleted. Tokenising runs on a worker
  // pool.
  virtual std::shared_ptr<CompletionCall> Start(CompletionRequest request,
                                                std::shared_ptr<CompletionListener> listener) = 0;

  // These two do CPU work on the caller's thread: front ends call them from a worker (see RunOnWorker).
  virtual Result<TokenizeResult> Tokenize(const std::string& model, const Prompt& prompt,
                                          bool add_special_tokens, bool parse_special) = 0;
  virtual Result<std::string> Detokenize(const std::string& model, const std::vector<std::int64_t>& tokens,
                                         bool skip_special_tokens) = 0;
  // Runs `work` on the tokenising pool; false when its queue is full.
  virtual bool RunOnWorker(std::function<void()> work) = 0;

  virtual std::vector<ModelInfo> ListModels() const = 0;
  virtual Result<ModelInfo> GetModel(const std::string& name) const = 0;

  // Cancels a request by its id; NotFound when there is none.
  virtual Status CancelById(const std::string& request_id) = 0;
  virtual std::int32_t LiveRequests() const = 0;
  virtual RefusalCounts Refusals() const = 0;
  // At most `limit` of them, oldest first.
  virtual std::vector<LiveRequest> ListRequests(std::size_t limit) const = 0;
  // Of all with this id (NotFound when there is none); of the `limit` oldest when it is empty.
  virtual Result<std::vector<RequestExplanation>> Explain(const std::string& request_id,
                                                          std::size_t limit) const = 0;

  // Ready: every model is loaded, warm and healthy, tokenising goes on, and we are not draining. The message
  // says what is missing.
  virtual Status Ready() const = 0;
  // From now on new requests get UNAVAILABLE and Ready() is false; running ones go on.
  virtual void BeginDrain() = 0;
  virtual bool draining() const = 0;
};

// `registry` must outlive the service.
std::unique_ptr<InferenceService> CreateInferenceService(ModelRegistry& registry,
                                                         const InferenceServiceOptions& options);

// A fresh request id ("req-" and 32 hexadecimal digits), for front ends that must know it before Start().
std::string MakeRequestId();

}  // namespace skipjack
