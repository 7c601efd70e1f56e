#include <utility>

#include "serve/http/answer.h"
#include "serve/http/sse.h"

namespace skipjack::http {
namespace {

class StreamedAnswer final : public Answer {
 public:
  StreamedAnswer(AnswerPlan plan, ResponseChannel& channel)
      : plan_(std::move(plan)),
        channel_(channel),
        renderer_(plan_.options, plan_.identity),
        choices_(static_cast<std::size_t>(plan_.total_choices())),
        unfinished_(plan_.total_choices()) {}

  void Begin() override {
    Response head{.status = 200, .content_type = std::string(kSseContentType)};
    head.fields = plan_.fields;
    head.fields.emplace_back("Cache-Control", "no-cache");
    head.fields.emplace_back("X-Accel-Buffering", "no");
    channel_.BeginStream(std::move(head));
    for (std::int32_t choice = 0; choice < plan_.total_choices(); ++choice) Open(choice);
  }

  void Delta(std::int32_t choice, ChoiceDelta delta) override {
    if (!renderer_.Shows(delta)) return;
    Emit(renderer_.Delta(choice, delta, TakeFirst(choice), PromptTokens(choice), &StateOf(choice).cursor));
  }

  // The last finish waits for what follows it: without a usage chunk the timings ride on it.
  void Finish(std::int32_t choice, ChoiceFinish finish) override {
    if (--unfinished_ == 0) {
      last_finish_ = {choice, std::move(finish)};
    } else {
      EmitFinish(choice, finish, nullptr);
    }
  }

  void Complete(const Summary& summary) override {
    const bool usage_chunk = plan_.options.include_usage;
    EmitLastFinish(usage_chunk ? nullptr : &summary);
    if (usage_chunk) Emit(renderer_.UsageOnly(summary));
    out_ += kSseDone;
    Flush();
    channel_.EndStream();
  }

  // No [DONE] follows: the answer is not complete.
  void Fail(const HttpError& error) override {
    EmitLastFinish(nullptr);
    AppendSseError(&out_, RenderError(error));
    Flush();
    channel_.EndStream();
  }

  void Flush() override {
    if (out_.empty()) return;
    channel_.StreamData(out_);
    out_.clear();
  }

 private:
  struct Choice {
    ChoiceCursor cursor;
    bool opened = false;
  };

  Choice& StateOf(std::int32_t choice) { return choices_[static_cast<std::size_t>(choice)]; }
  const PromptEcho& PromptOf(std::int32_t choice) const {
    return plan_.prompts[static_cast<std::size_t>(choice / plan_.choices_per_prompt)];
  }
  std::int32_t PromptTokens(std::int32_t choice) const {
    return static_cast<std::int32_t>(PromptOf(choice).tokens.size());
  }

  void Open(std::int32_t choice) {
    if (plan_.options.api == Api::kChat) {
      Emit(renderer_.Role(choice, PromptOf(choice)));
    } else if (plan_.options.echo) {
      Emit(renderer_.Echo(choice, PromptOf(choice), &StateOf(choice).cursor));
    } else {
      return;
    }
    StateOf(choice).opened = true;
  }

  // The prompt before a choice's first chunk, afterwards nothing.
  const PromptEcho* TakeFirst(std::int32_t choice) {
    return std::exchange(StateOf(choice).opened, true) ? nullptr : &PromptOf(choice);
  }

  void Emit(std::string_view json) { AppendSseData(&out_, json); }

  void EmitFinish(std::int32_t choice, const ChoiceFinish& finish, const Summary* summary) {
    Emit(renderer_.Finish(choice, finish, TakeFirst(choice), PromptTokens(choice), StateOf(choice).cursor,
                          summary));
  }

  void EmitLastFinish(const Summary* summary) {
    if (!last_finish_) return;
    EmitFinish(last_finish_->first, last_finish_->second, summary);
    last_finish_.reset();
  }

  const AnswerPlan plan_;
  ResponseChannel& channel_;
  const ChunkRenderer renderer_;
  std::vector<Choice> choices_;
  std::int32_t unfinished_;
  std::optional<std::pair<std::int32_t, ChoiceFinish>> last_finish_;
  std::string out_;  // events rendered and not yet handed on
};

}  // namespace

std::unique_ptr<Answer> MakeStreamedAnswer(AnswerPlan plan, ResponseChannel& channel) {
  return std::make_unique<StreamedAnswer>(std::move(plan), channel);
}

}  // namespace skipjack::http
