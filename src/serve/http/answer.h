// Turns a completion's events into what the client gets: a stream of chunks, or one response collected from
// them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/http/error_json.h"
#include "serve/http/exchange.h"
#include "serve/http/openai_render.h"

namespace skipjack::http {

// What is known of an answer once every prompt has been accepted.
struct AnswerPlan {
  AnswerOptions options;
  AnswerIdentity identity;
  std::vector<PromptEcho> prompts;
  std::int32_t choices_per_prompt = 1;
  std::vector<std::pair<std::string, std::string>> fields;  // of the response's head

  std::int32_t total_choices() const {
    return choices_per_prompt * static_cast<std::int32_t>(prompts.size());
  }
};

// Indices run across prompts: choice c of prompt p is p * choices_per_prompt + c.
class Answer {
 public:
  virtual ~Answer() = default;
  virtual void Begin() = 0;
  virtual void Delta(std::int32_t choice, ChoiceDelta delta) = 0;
  virtual void Finish(std::int32_t choice, ChoiceFinish finish) = 0;
  virtual void Complete(const Summary& summary) = 0;
  virtual void Fail(const HttpError& error) = 0;
  // A batch of events is over: what they produced is sent.
  virtual void Flush() = 0;
};

std::unique_ptr<Answer> MakeStreamedAnswer(AnswerPlan plan, ResponseChannel& channel);

// `render_elsewhere(bytes, render)` arranges for the response that `render` makes, which will be about that
// large.
std::unique_ptr<Answer> MakeCollectedAnswer(
    AnswerPlan plan, ResponseChannel& channel,
    std::function<void(std::size_t, std::function<Response()>)> render_elsewhere);

}  // namespace skipjack::http
