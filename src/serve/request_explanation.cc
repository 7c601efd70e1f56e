#include "serve/request_explanation.h"

#include <map>
#include <string>
#include <utility>

#include "serve/completion_session.h"

namespace skipjack {
namespace {

struct ChoiceName {
  std::string request_id;
  std::size_t choice = 0;
  bool only_choice = true;
};

// Sequence ids are an engine's own.
using Names = std::map<std::pair<const Engine*, SequenceId>, ChoiceName>;

Names NamesOf(std::span<const std::shared_ptr<CompletionSession>> sessions) {
  Names names;
  for (const auto& session : sessions) {
    const CompletionSession::Sequences submitted = session->Submitted();
    if (submitted.model == nullptr) continue;
    for (std::size_t choice = 0; choice < submitted.ids.size(); ++choice) {
      names[{submitted.model->engine.get(), submitted.ids[choice]}] = {session->request_id(), choice,
                                                                       submitted.ids.size() == 1};
    }
  }
  return names;
}

RequestExplanation Explain(const CompletionSession& session, const Names& names) {
  RequestExplanation out{.request = session.Describe(), .submitted = false, .choices = {}};
  const CompletionSession::Sequences submitted = session.Submitted();
  if (submitted.model == nullptr) return out;
  out.submitted = true;
  const Engine& engine = *submitted.model->engine;
  const auto id_of = [&](SequenceId sequence) {
    const auto found = names.find({&engine, sequence});
    return found == names.end() ? std::string() : found->second.request_id;
  };
  const auto name_of = [&](SequenceId sequence) {
    const auto found = names.find({&engine, sequence});
    if (found == names.end()) return std::string("a request that has ended");
    const ChoiceName& name = found->second;
    const std::string request =
        name.request_id == session.request_id() ? "the same request" : "request " + name.request_id;
    return name.only_choice ? request : "choice " + std::to_string(name.choice) + " of " + request;
  };
  for (std::size_t choice = 0; choice < submitted.ids.size(); ++choice) {
    std::optional<SequenceExplanation> sequence = engine.Explain(submitted.ids[choice]);
    if (!sequence) continue;  // it has ended
    sequence->priority = session.priority();
    ChoiceExplanation& entry = out.choices.emplace_back();
    entry.choice = static_cast<std::int32_t>(choice);
    entry.sentence = ToSentence(*sequence, name_of);
    if (sequence->waits_for) entry.other_request_id = id_of(sequence->waits_for->other);
    if (sequence->preempted) entry.preempted_by_request_id = id_of(sequence->preempted->by);
    entry.sequence = *std::move(sequence);
  }
  return out;
}

}  // namespace

std::vector<RequestExplanation> ExplainSessions(std::span<const std::shared_ptr<CompletionSession>> sessions,
                                                std::span<const std::shared_ptr<CompletionSession>> live) {
  const Names names = NamesOf(live);
  std::vector<RequestExplanation> out;
  out.reserve(sessions.size());
  for (const auto& session : sessions) out.push_back(Explain(*session, names));
  return out;
}

}  // namespace skipjack
