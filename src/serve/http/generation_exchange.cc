#include "serve/http/generation_exchange.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "serve/http/answer.h"
#include "serve/http/mailbox.h"
#include "serve/http/request_headers.h"

namespace skipjack::http {
namespace {

// A parsed request with what `echo` will say for each prompt.
struct Prepared {
  ParsedCompletion parsed;
  std::vector<std::string> echo;
};

struct Event {
  using Body = std::variant<Parsed<Prepared>, Accepted, ChoiceDelta, ChoiceFinish, Completed, Response>;
  std::size_t prompt = 0;
  Body body;
};

class PromptListener final : public CompletionListener {
 public:
  PromptListener(std::shared_ptr<Mailbox<Event>> mailbox, std::size_t prompt)
      : mailbox_(std::move(mailbox)), prompt_(prompt) {}

  void OnAccepted(Accepted accepted) override { mailbox_->Post({prompt_, std::move(accepted)}); }
  void OnDelta(ChoiceDelta delta) override { mailbox_->Post({prompt_, std::move(delta)}); }
  void OnChoiceFinish(ChoiceFinish finish) override { mailbox_->Post({prompt_, std::move(finish)}); }
  void OnCompleted(Completed completed) override { mailbox_->Post({prompt_, std::move(completed)}); }

 private:
  const std::shared_ptr<Mailbox<Event>> mailbox_;
  const std::size_t prompt_;
};

bool EchoNeedsText(const ParsedCompletion& parsed) {
  return parsed.answer.echo &&
         std::any_of(parsed.prompts.begin(), parsed.prompts.end(), [](const Prompt& prompt) {
           return std::holds_alternative<std::vector<TokenId>>(prompt);
         });
}

// Detokenises where a prompt came as ids, so it belongs on a worker then.
Parsed<Prepared> PrepareEcho(InferenceService& service, ParsedCompletion parsed) {
  Prepared prepared{std::move(parsed), {}};
  const ParsedCompletion& request = prepared.parsed;
  for (const Prompt& prompt : request.prompts) {
    std::string& echo = prepared.echo.emplace_back();
    if (!request.answer.echo) continue;
    if (const auto* text = std::get_if<std::string>(&prompt)) {
      echo = *text;
    } else if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
      Result<std::string> decoded =
          service.Detokenize(request.request.model, std::vector<std::int64_t>(ids->begin(), ids->end()),
                             request.request.skip_special_tokens);
      if (!decoded.ok()) return ErrorFromStatus(decoded.status());
      echo = *std::move(decoded);
    }
  }
  return prepared;
}

HttpError WorkersBusy() {
  return ErrorFromStatus(Status::ResourceExhausted("too many requests are waiting to be read; try again"));
}

class GenerationExchange final : public Exchange, public std::enable_shared_from_this<GenerationExchange> {
 public:
  GenerationExchange(Api api, Request request, ServerContext& context, ResponseChannel& channel)
      : api_(api), request_(std::move(request)), context_(context), channel_(channel) {}

  void Open(boost::asio::io_context::executor_type executor) {
    mailbox_ =
        std::make_shared<Mailbox<Event>>(executor, [weak = weak_from_this()](std::vector<Event> events) {
          if (const auto self = weak.lock()) self->OnEvents(std::move(events));
        });
  }

  ~GenerationExchange() override { mailbox_->Close(); }

  void Start() override {
    ParseOptions options = context_.parse_options();
    options.strict = WantsStrict(request_.head);
    InferenceService& service = context_.service;
    if (request_.body->size() <= context_.options.inline_bytes) {
      Parsed<ParsedCompletion> parsed = ParseCompletion(api_, request_.body->text(), options);
      request_.body->Drop();
      if (auto* error = std::get_if<HttpError>(&parsed)) return FailWith(*error);
      auto& request = std::get<ParsedCompletion>(parsed);
      if (!EchoNeedsText(request)) return OnPrepared(PrepareEcho(service, std::move(request)));
      return Offload([&service, request = std::move(request)]() mutable {
        return PrepareEcho(service, std::move(request));
      });
    }
    Offload([&service, options, api = api_, body = request_.body]() -> Parsed<Prepared> {
      Parsed<ParsedCompletion> parsed = ParseCompletion(api, body->text(), options);
      body->Drop();
      if (auto* error = std::get_if<HttpError>(&parsed)) return std::move(*error);
      return PrepareEcho(service, std::get<ParsedCompletion>(std::move(parsed)));
    });
  }

  void Cancel(const Status& why) override {
    if (std::exchange(done_, true)) return;
    mailbox_->Close();
    CancelCalls(why);
  }

  void Fail(const Status& why) override { FailWith(ErrorFromStatus(why)); }

  bool cancellable() const override { return !done_; }

 private:
  // On a worker; 429 when their queue is full.
  void Offload(std::function<Parsed<Prepared>()> prepare) {
    const bool queued = context_.service.RunOnWorker([mailbox = mailbox_, prepare = std::move(prepare)] {
      mailbox->Post({0, prepare()});
    });
    if (!queued) FailWith(WorkersBusy());
  }

  void OnEvents(std::vector<Event> events) {
    for (Event& event : events) {
      if (done_) return;
      if (answer_ == nullptr && IsOutput(event)) {
        held_.push_back(std::move(event));
      } else {
        Handle(std::move(event));
      }
    }
    if (!done_ && answer_ != nullptr) answer_->Flush();
  }

  // Output of one prompt waits until all are accepted: until then the request can still be refused as a
  // whole.
  bool IsOutput(const Event& event) const {
    if (const auto* completed = std::get_if<Completed>(&event.body)) {
      return completed->status.ok() && prompt_accepted_[event.prompt];
    }
    return std::holds_alternative<ChoiceDelta>(event.body) ||
           std::holds_alternative<ChoiceFinish>(event.body);
  }

  void Handle(Event event) {
    const std::size_t prompt = event.prompt;
    if (auto* prepared = std::get_if<Parsed<Prepared>>(&event.body)) {
      OnPrepared(std::move(*prepared));
    } else if (auto* accepted = std::get_if<Accepted>(&event.body)) {
      OnAccepted(prompt, std::move(*accepted));
    } else if (auto* delta = std::get_if<ChoiceDelta>(&event.body)) {
      if (const auto choice = Index(prompt, delta->choice)) answer_->Delta(*choice, std::move(*delta));
    } else if (auto* finish = std::get_if<ChoiceFinish>(&event.body)) {
      // Clients learn which of their own stop ids was met, not which end-of-generation token the model has.
      if (finish->stop_token &&
          std::count(stop_token_ids_.begin(), stop_token_ids_.end(), *finish->stop_token) == 0) {
        finish->stop_token.reset();
      }
      if (const auto choice = Index(prompt, finish->choice)) answer_->Finish(*choice, std::move(*finish));
    } else if (auto* completed = std::get_if<Completed>(&event.body)) {
      OnCompleted(prompt, std::move(*completed));
    } else if (auto* response = std::get_if<Response>(&event.body)) {
      Conclude();
      channel_.Respond(std::move(*response));
    }
  }

  // Choice numbers run across prompts. One the service was not asked for is a broken invariant: it ends this
  // request.
  std::optional<std::int32_t> Index(std::size_t prompt, std::int32_t choice) {
    if (choice >= 0 && choice < choices_) return static_cast<std::int32_t>(prompt) * choices_ + choice;
    Fail(Status::Internal("the engine answered for choice " + std::to_string(choice) + " of " +
                          std::to_string(choices_)));
    return std::nullopt;
  }

  void OnPrepared(Parsed<Prepared> outcome) {
    if (auto* error = std::get_if<HttpError>(&outcome)) return FailWith(*error);
    Prepared& prepared = std::get<Prepared>(outcome);
    ParsedCompletion& parsed = prepared.parsed;
    CompletionRequest base = std::move(parsed.request);
    base.tenant = TenantOf(request_.head);
    if (!request_.request_id_from_client && !base.request_id.empty()) {
      request_.request_id = base.request_id;
      channel_.NameRequest(request_.request_id);
    }
    options_ = parsed.answer;
    ignored_fields_ = std::move(parsed.ignored_fields);
    requested_choices_ = parsed.choices;
    stop_token_ids_ = base.stop_token_ids;
    prompts_.resize(parsed.prompts.size());
    prompt_accepted_.resize(parsed.prompts.size());
    for (std::size_t i = 0; i < prompts_.size(); ++i) prompts_[i].text = std::move(prepared.echo[i]);

    for (std::size_t i = 0; i < prompts_.size(); ++i) {
      CompletionRequest request = base;
      request.request_id = request_.request_id;
      if (prompts_.size() > 1) request.request_id.append("-").append(std::to_string(i));
      request.prompt = std::move(parsed.prompts[i]);
      calls_.push_back(
          context_.service.Start(std::move(request), std::make_shared<PromptListener>(mailbox_, i)));
    }
  }

  void OnAccepted(std::size_t prompt, Accepted accepted) {
    if (prompt_accepted_[prompt]) return;
    prompt_accepted_[prompt] = true;
    prompts_[prompt].tokens = std::move(accepted.prompt_tokens);
    if (accepted_ == 0) {
      identity_.created = accepted.created_unix_seconds;
      identity_.model = std::move(accepted.model);
    }
    if (++accepted_ < prompt_accepted_.size()) return;
    MakeAnswer();
    answer_->Begin();
    for (Event& event : std::exchange(held_, {})) {
      if (!done_) Handle(std::move(event));
    }
  }

  void MakeAnswer() {
    // Accepted, so n lies within the service's limit.
    choices_ = static_cast<std::int32_t>(
        std::clamp<std::int64_t>(requested_choices_, 1, std::numeric_limits<std::int32_t>::max() / 1024));
    identity_.id = (api_ == Api::kChat ? "chatcmpl-" : "cmpl-") + request_.request_id;
    AnswerPlan plan{.options = options_,
                    .identity = identity_,
                    .prompts = std::move(prompts_),
                    .choices_per_prompt = choices_,
                    .fields = {}};
    if (!ignored_fields_.empty()) plan.fields.push_back(IgnoredFieldsWarning(ignored_fields_));
    if (options_.stream) {
      answer_ = MakeStreamedAnswer(std::move(plan), channel_);
    } else {
      answer_ = MakeCollectedAnswer(std::move(plan), channel_, [this](std::size_t bytes, auto render) {
        RenderElsewhere(bytes, std::move(render));
      });
    }
  }

  // Large answers are rendered on a worker; when none is to be had, here after all: the work is done, so it
  // is sent.
  void RenderElsewhere(std::size_t bytes, std::function<Response()> render) {
    if (bytes > context_.options.inline_bytes && context_.service.RunOnWorker([mailbox = mailbox_, render] {
          mailbox->Post({0, render()});
        })) {
      return;
    }
    Conclude();
    channel_.Respond(render());
  }

  void OnCompleted(std::size_t prompt, Completed completed) {
    if (!completed.status.ok())
      return FailWith(ErrorFromStatus(completed.status, completed.retry_after_seconds));
    if (answer_ == nullptr)
      return Fail(Status::Internal("the engine completed a request it had not accepted"));
    summary_.usage.prompt_tokens += completed.usage.prompt_tokens;
    summary_.usage.completion_tokens += completed.usage.completion_tokens;
    summary_.usage.cached_tokens += completed.usage.cached_tokens;
    const auto total = [](const Timings& t) {
      return t.queue_seconds + t.prefill_seconds + t.decode_seconds;
    };
    if (completed_ == 0 || total(completed.timings) > total(summary_.timings))
      summary_.timings = completed.timings;
    const auto first = static_cast<std::int32_t>(prompt) * choices_;
    for (ChoiceTimeline& choice : completed.timelines)
      summary_.timelines.push_back({first + choice.choice, std::move(choice.timeline)});
    if (++completed_ < prompt_accepted_.size()) return;
    std::ranges::sort(summary_.timelines, {}, &ChoiceTimeline::choice);
    summary_.timings.cached_tokens = summary_.usage.cached_tokens;
    if (options_.stream) Conclude();
    answer_->Complete(summary_);
  }

  void FailWith(const HttpError& error) {
    if (done_) return;
    Conclude();
    CancelCalls(Status::Cancelled("another part of the request failed"));
    if (answer_ != nullptr) {
      answer_->Fail(error);
      return;
    }
    Response response = ErrorResponse(error);
    if (!ignored_fields_.empty()) response.fields.push_back(IgnoredFieldsWarning(ignored_fields_));
    channel_.Respond(std::move(response));
  }

  void Conclude() {
    done_ = true;
    mailbox_->Close();
  }

  void CancelCalls(const Status& why) {
    for (const auto& call : std::exchange(calls_, {})) {
      if (call != nullptr) call->Cancel(why);
    }
  }

  const Api api_;
  Request request_;
  ServerContext& context_;
  ResponseChannel& channel_;
  std::shared_ptr<Mailbox<Event>> mailbox_;

  AnswerOptions options_;
  std::vector<std::string> ignored_fields_;
  std::int64_t requested_choices_ = 1;
  std::vector<std::int64_t> stop_token_ids_;
  std::int32_t choices_ = 1;  // per prompt
  AnswerIdentity identity_;
  std::vector<PromptEcho> prompts_;  // until the answer takes them
  std::vector<bool> prompt_accepted_;
  std::vector<std::shared_ptr<CompletionCall>> calls_;
  std::vector<Event> held_;  // output that came before every prompt was accepted
  std::size_t accepted_ = 0;
  std::size_t completed_ = 0;
  Summary summary_;
  std::unique_ptr<Answer> answer_;  // from the moment every prompt is accepted
  bool done_ = false;
};

}  // namespace

std::shared_ptr<Exchange> MakeGenerationExchange(Api api, Request request, ServerContext& context,
                                                 ResponseChannel& channel,
                                                 boost::asio::io_context::executor_type executor) {
  auto exchange = std::make_shared<GenerationExchange>(api, std::move(request), context, channel);
  exchange->Open(executor);
  return exchange;
}

}  // namespace skipjack::http
