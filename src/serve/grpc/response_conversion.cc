#include "serve/grpc/response_conversion.h"

#include <utility>

#include "serve/grpc/request_conversion.h"

namespace skipjack {
namespace {

// Ids, lengths and tags of one entry on the wire, roughly.
constexpr std::size_t kTokenOverhead = 16;

v1::TextDelta* DeltaOf(std::int32_t choice, v1::GenerateResponse* response) {
  for (v1::TextDelta& delta : *response->mutable_deltas()) {
    if (delta.choice() == choice) return &delta;
  }
  v1::TextDelta* delta = response->add_deltas();
  delta->set_choice(choice);
  return delta;
}

std::size_t AddToken(TokenPiece piece, bool logprobs, v1::TextDelta* delta) {
  std::size_t bytes = kTokenOverhead + piece.bytes.size();
  v1::Token* token = delta->add_tokens();
  token->set_id(piece.id);
  token->set_bytes(std::move(piece.bytes));
  token->set_ends_text(piece.ends_text);
  if (!logprobs) return bytes;
  token->set_logprob(piece.logprob);
  for (TokenPiece::Alternative& alternative : piece.top) {
    bytes += kTokenOverhead + alternative.bytes.size();
    v1::TokenLogprob* top = token->add_top();
    top->set_id(alternative.id);
    top->set_bytes(std::move(alternative.bytes));
    top->set_logprob(alternative.logprob);
  }
  return bytes;
}

v1::FinishReason ToProto(FinishReason reason) {
  return reason == FinishReason::kLength ? v1::FINISH_REASON_LENGTH : v1::FINISH_REASON_STOP;
}

v1::ModelState ToProto(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case ModelState::kReady:
      return v1::MODEL_STATE_READY;
    case ModelState::kFailed:
      return v1::MODEL_STATE_FAILED;
    case ModelState::kDraining:
      return v1::MODEL_STATE_DRAINING;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

}  // namespace

void AddStarted(Accepted accepted, const ResponseOptions& options, v1::GenerateResponse* response) {
  v1::GenerateStarted* started = response->mutable_started();
  started->set_request_id(std::move(accepted.request_id));
  started->set_model(std::move(accepted.model));
  started->set_prompt_tokens(static_cast<std::int32_t>(accepted.prompt_tokens.size()));
  started->set_created_unix_seconds(accepted.created_unix_seconds);
  if (options.prompt_token_ids) {
    started->mutable_prompt_token_ids()->Add(accepted.prompt_tokens.begin(), accepted.prompt_tokens.end());
  }
}

std::size_t AddDelta(ChoiceDelta delta, const ResponseOptions& options, v1::GenerateResponse* response) {
  v1::TextDelta* message = DeltaOf(delta.choice, response);
  std::size_t bytes = kTokenOverhead + delta.text.size();
  message->mutable_text()->append(delta.text);
  message->set_token_count(message->token_count() + static_cast<std::int32_t>(delta.tokens.size()));
  if (!options.tokens) return bytes;
  for (TokenPiece& piece : delta.tokens) bytes += AddToken(std::move(piece), options.logprobs, message);
  return bytes;
}

void AddFinish(ChoiceFinish finish, v1::GenerateResponse* response) {
  v1::ChoiceFinish* message = response->add_finished();
  message->set_choice(finish.choice);
  message->set_reason(ToProto(finish.reason));
  if (!finish.stop_string.empty()) message->set_stop_string(std::move(finish.stop_string));
  if (finish.stop_token) message->set_stop_token(*finish.stop_token);
  message->set_generated_tokens(finish.generated_tokens);
}

void AddCompleted(const Completed& completed, v1::GenerateResponse* response) {
  v1::Usage* usage = response->mutable_completed()->mutable_usage();
  usage->set_prompt_tokens(completed.usage.prompt_tokens);
  usage->set_completion_tokens(completed.usage.completion_tokens);
  usage->set_cached_tokens(completed.usage.cached_tokens);
  v1::Timings* timings = response->mutable_completed()->mutable_timings();
  timings->set_queue_seconds(completed.timings.queue_seconds);
  timings->set_prefill_seconds(completed.timings.prefill_seconds);
  timings->set_decode_seconds(completed.timings.decode_seconds);
  timings->set_preemptions(completed.timings.preemptions);
}

v1::Model ToProto(const ModelInfo& model) {
  v1::Model message;
  message.set_name(model.name);
  message.set_ready(model.ready);
  message.set_architecture(model.architecture);
  message.set_description(model.description);
  message.set_context_length(model.context_length);
  message.set_vocabulary(model.vocabulary);
  message.set_has_chat_template(model.has_chat_template);
  message.set_created_unix_seconds(model.created_unix_seconds);
  return message;
}

v1::LiveRequest ToProto(const LiveRequest& request) {
  v1::LiveRequest message;
  message.set_request_id(request.request_id);
  message.set_model(request.model);
  message.set_tenant(request.tenant);
  *message.mutable_age() = ToProto(request.age);
  message.set_prompt_tokens(request.prompt_tokens);
  message.set_generated_tokens(request.generated_tokens);
  return message;
}

v1::EngineStats ToProto(const EngineStats& stats) {
  v1::EngineStats message;
  const SchedulerStats& scheduler = stats.scheduler;
  message.set_pending(stats.pending_submissions);
  message.set_waiting(scheduler.waiting);
  message.set_running(scheduler.running);
  message.set_swapped(scheduler.swapped);
  message.set_blocks_total(scheduler.blocks_total);
  message.set_blocks_used(scheduler.blocks_used);
  message.set_blocks_cached(scheduler.blocks_cached);
  message.set_blocks_free(scheduler.blocks_free);
  message.set_steps(stats.steps);
  message.set_prompt_tokens(stats.prompt_tokens);
  message.set_generated_tokens(stats.generated_tokens);
  message.set_finished_stop(stats.finished_stop);
  message.set_finished_length(stats.finished_length);
  message.set_finished_cancelled(stats.finished_cancelled);
  message.set_finished_error(stats.finished_error);
  message.set_rejected(stats.rejected);
  message.set_preemptions(scheduler.preemptions);
  message.set_recomputed_tokens(scheduler.recomputed_tokens);
  message.set_prefix_queries_tokens(scheduler.prefix_queries_tokens);
  message.set_prefix_hit_tokens(scheduler.prefix_hit_tokens);
  message.set_non_finite_logits(stats.non_finite_logits);
  return message;
}

v1::ModelStatus ToProto(const ModelStatus& status) {
  v1::ModelStatus message;
  message.set_name(status.name);
  message.set_state(ToProto(status.state));
  message.set_phase(status.phase);
  message.set_progress(status.progress);
  message.set_error(status.error.message());
  return message;
}

}  // namespace skipjack
