#include <iterator>
#include <utility>

#include "serve/http/answer.h"

namespace skipjack::http {
namespace {

// Everything a response is rendered from. Shared with the worker that renders it.
struct Collection {
  AnswerPlan plan;
  std::vector<ChoiceResult> choices;
  Summary summary;
  std::size_t bytes = 0;  // roughly, once rendered

  Response Render() const {
    Response response;
    response.fields = plan.fields;
    response.body = RenderAnswer(plan.options, plan.identity, choices, plan.prompts, summary);
    return response;
  }
};

class CollectedAnswer final : public Answer {
 public:
  using RenderElsewhere = std::function<void(std::size_t, std::function<Response()>)>;

  CollectedAnswer(AnswerPlan plan, ResponseChannel& channel, RenderElsewhere render_elsewhere)
      : collection_(std::make_shared<Collection>()),
        channel_(channel),
        render_elsewhere_(std::move(render_elsewhere)) {
    keep_tokens_ = plan.options.logprobs || plan.options.return_token_ids;
    collection_->choices.resize(static_cast<std::size_t>(plan.total_choices()));
    for (std::size_t i = 0; i < collection_->choices.size(); ++i) {
      const std::size_t prompt = i / static_cast<std::size_t>(plan.choices_per_prompt);
      collection_->choices[i].prompt = prompt;
      collection_->bytes += plan.prompts[prompt].text.size();
      if (plan.options.return_token_ids) collection_->bytes += plan.prompts[prompt].tokens.size() * 6;
    }
    collection_->plan = std::move(plan);
  }

  void Begin() override {}
  void Flush() override {}

  void Delta(std::int32_t choice, ChoiceDelta delta) override {
    constexpr std::size_t kBytesOfToken = 64;
    ChoiceResult& result = ResultOf(choice);
    result.text += delta.text;
    collection_->bytes += delta.text.size();
    if (!keep_tokens_) return;
    for (const TokenPiece& token : delta.tokens) collection_->bytes += kBytesOfToken * (1 + token.top.size());
    result.tokens.insert(result.tokens.end(), std::make_move_iterator(delta.tokens.begin()),
                         std::make_move_iterator(delta.tokens.end()));
  }

  void Finish(std::int32_t choice, ChoiceFinish finish) override {
    ResultOf(choice).reason = finish.reason;
    ResultOf(choice).stop_string = std::move(finish.stop_string);
    ResultOf(choice).stop_token = finish.stop_token;
  }

  void Complete(const Summary& summary) override {
    constexpr std::size_t kBytesOfEvent = 100;
    collection_->summary = summary;
    for (const ChoiceTimeline& choice : summary.timelines)
      collection_->bytes += kBytesOfEvent * choice.timeline->events.size();
    render_elsewhere_(collection_->bytes, [collection = collection_] { return collection->Render(); });
  }

  void Fail(const HttpError& error) override { channel_.Respond(ErrorResponse(error)); }

 private:
  ChoiceResult& ResultOf(std::int32_t choice) {
    return collection_->choices[static_cast<std::size_t>(choice)];
  }

  std::shared_ptr<Collection> collection_;
  ResponseChannel& channel_;
  RenderElsewhere render_elsewhere_;
  bool keep_tokens_ = false;
};

}  // namespace

std::unique_ptr<Answer> MakeCollectedAnswer(
    AnswerPlan plan, ResponseChannel& channel,
    std::function<void(std::size_t, std::function<Response()>)> render_elsewhere) {
  return std::make_unique<CollectedAnswer>(std::move(plan), channel, std::move(render_elsewhere));
}

}  // namespace skipjack::http
