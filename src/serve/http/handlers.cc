#include "serve/http/handlers.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "serve/http/generation_exchange.h"
#include "serve/http/json_writer.h"
#include "serve/http/mailbox.h"
#include "serve/http/request_headers.h"

namespace skipjack::http {
namespace {

void RenderModel(JsonWriter* json, const ModelInfo& model) {
  json->BeginObject().Field("id", model.name).Field("object", "model");
  json->Field("created", model.created_unix_seconds).Field("owned_by", "skipjack");
  json->Field("max_model_len", model.context_length).Field("vocabulary", model.vocabulary);
  json->Field("architecture", model.architecture).Field("description", model.description);
  json->Field("ready", model.ready).Field("has_chat_template", model.has_chat_template);
  json->EndObject();
}

Response AnswerModels(const InferenceService& service) {
  Response response;
  JsonWriter json(&response.body);
  json.BeginObject().Field("object", "list").Key("data").BeginArray();
  for (const ModelInfo& model : service.ListModels()) RenderModel(&json, model);
  json.EndArray().EndObject();
  return response;
}

Response AnswerModel(const InferenceService& service, const std::string& name) {
  const Result<ModelInfo> model = service.GetModel(name);
  if (!model.ok()) {
    HttpError error = ErrorFromStatus(model.status());
    if (error.status == 404) error.code = "model_not_found";
    return ErrorResponse(error);
  }
  Response response;
  JsonWriter json(&response.body);
  RenderModel(&json, *model);
  return response;
}

Response AnswerText(std::string_view key, std::string_view value) {
  Response response;
  JsonWriter(&response.body).BeginObject().Field(key, value).EndObject();
  return response;
}

Response AnswerMetrics(const ServerContext& context) {
  if (!context.options.metrics)
    return ErrorResponse({.status = 404, .message = "metrics are not served here"});
  return {.status = 200,
          .content_type = "text/plain; version=0.0.4; charset=utf-8",
          .body = context.options.metrics()};
}

// A request whose whole answer is made by one function on a worker.
class WorkerExchange final : public Exchange, public std::enable_shared_from_this<WorkerExchange> {
 public:
  WorkerExchange(std::function<Response()> work, ServerContext& context, ResponseChannel& channel)
      : work_(std::move(work)), context_(context), channel_(channel) {}

  ~WorkerExchange() override { mailbox_->Close(); }

  void Open(boost::asio::io_context::executor_type executor) {
    mailbox_ =
        std::make_shared<Mailbox<Response>>(executor, [weak = weak_from_this()](std::vector<Response> made) {
          if (const auto self = weak.lock()) self->Answer(std::move(made.front()));
        });
  }

  void Start() override {
    const bool queued = context_.service.RunOnWorker(
        [mailbox = mailbox_, work = std::move(work_)] { mailbox->Post(work()); });
    if (!queued) Fail(Status::ResourceExhausted("too many requests are waiting to be read; try again"));
  }

  void Cancel(const Status&) override { mailbox_->Close(); }
  void Fail(const Status& why) override { Answer(ErrorResponse(ErrorFromStatus(why))); }
  bool cancellable() const override { return false; }

 private:
  void Answer(Response response) {
    mailbox_->Close();
    channel_.Respond(std::move(response));
  }

  std::function<Response()> work_;
  ServerContext& context_;
  ResponseChannel& channel_;
  std::shared_ptr<Mailbox<Response>> mailbox_;
};

void Warn(const std::vector<std::string>& ignored_fields, Response* response) {
  if (!ignored_fields.empty()) response->fields.push_back(IgnoredFieldsWarning(ignored_fields));
}

Response Tokenize(InferenceService& service, const ParsedTokenize& request) {
  const Result<ModelInfo> model = service.GetModel(request.model);
  if (!model.ok()) return ErrorResponse(ErrorFromStatus(model.status()));
  const Result<TokenizeResult> result =
      service.Tokenize(request.model, request.prompt, request.add_special_tokens, request.parse_special);
  if (!result.ok()) return ErrorResponse(ErrorFromStatus(result.status()));

  Response response;
  JsonWriter json(&response.body);
  json.BeginObject().Field("count", static_cast<std::int64_t>(result->tokens.size()));
  json.Field("max_model_len", model->context_length).Key("tokens").BeginArray();
  for (const TokenId id : result->tokens) json.Int(id);
  json.EndArray().Key("token_strs");
  if (request.return_token_strings) {
    json.BeginArray();
    for (const std::string& piece : result->pieces) json.String(piece);
    json.EndArray();
  } else {
    json.Null();
  }
  json.EndObject();
  Warn(request.ignored_fields, &response);
  return response;
}

Response Detokenize(InferenceService& service, const ParsedDetokenize& request) {
  const Result<std::string> text =
      service.Detokenize(request.model, request.tokens, request.skip_special_tokens);
  Response response = text.ok() ? AnswerText("prompt", *text) : ErrorResponse(ErrorFromStatus(text.status()));
  Warn(request.ignored_fields, &response);
  return response;
}

std::function<Response()> TokenizerWork(HttpRoute route, Request request, ServerContext& context) {
  ParseOptions options = context.parse_options();
  options.strict = WantsStrict(request.head);
  return [route, options, body = std::move(request.body), &service = context.service]() -> Response {
    if (route == HttpRoute::kTokenize) {
      const Parsed<ParsedTokenize> parsed = ParseTokenize(body->text(), options);
      body->Drop();
      if (const auto* error = std::get_if<HttpError>(&parsed)) return ErrorResponse(*error);
      return Tokenize(service, std::get<ParsedTokenize>(parsed));
    }
    const Parsed<ParsedDetokenize> parsed = ParseDetokenize(body->text(), options);
    body->Drop();
    if (const auto* error = std::get_if<HttpError>(&parsed)) return ErrorResponse(*error);
    return Detokenize(service, std::get<ParsedDetokenize>(parsed));
  };
}

}  // namespace

Response AnswerDirectly(const RouteMatch& match, Method method, ServerContext& context) {
  if (method == Method::kOptions) {
    return {
        .status = 204, .content_type = "", .fields = {{"Allow", std::string(AllowedMethods(match.route))}}};
  }
  switch (match.route) {
    case HttpRoute::kModels:
      return AnswerModels(context.service);
    case HttpRoute::kModel:
      return AnswerModel(context.service, match.model);
    case HttpRoute::kHealthLive:
      return AnswerText("status", "live");
    case HttpRoute::kHealthReady: {
      const Status ready = context.service.Ready();
      return ready.ok() ? AnswerText("status", "ready")
                        : ErrorResponse({.status = 503, .message = "not ready: " + ready.message()});
    }
    case HttpRoute::kMetrics:
      return AnswerMetrics(context);
    case HttpRoute::kVersion:
      return AnswerText("version", context.options.version);
    case HttpRoute::kCompletions:
    case HttpRoute::kChatCompletions:
    case HttpRoute::kTokenize:
    case HttpRoute::kDetokenize:
    case HttpRoute::kUnknown:
      break;
  }
  return ErrorResponse({.status = 404, .message = "no such resource"});
}

std::shared_ptr<Exchange> MakeExchange(HttpRoute route, Request request, ServerContext& context,
                                       ResponseChannel& channel,
                                       boost::asio::io_context::executor_type executor) {
  if (route == HttpRoute::kCompletions || route == HttpRoute::kChatCompletions) {
    const Api api = route == HttpRoute::kChatCompletions ? Api::kChat : Api::kCompletions;
    return MakeGenerationExchange(api, std::move(request), context, channel, executor);
  }
  auto exchange =
      std::make_shared<WorkerExchange>(TokenizerWork(route, std::move(request), context), context, channel);
  exchange->Open(executor);
  return exchange;
}

}  // namespace skipjack::http
