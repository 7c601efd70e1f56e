#include "serve/grpc/response_conversion.h"

#include "serve/grpc/request_conversion.h"

namespace skipjack {
namespace {

v1::ModelState ToProto(ModelState state) {
  switch (state) {
    case ModelState::kLoading:
      return v1::MODEL_STATE_LOADING;
    case ModelState::kReady:
      return v1::MODEL_STATE_READY;
    case ModelState::kFailed:
      return v1::MODEL_STATE_FAILED;
  }
  return v1::MODEL_STATE_UNSPECIFIED;
}

}  // namespace

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
  message.set_interrupted_steps(stats.interrupted_steps);
  message.set_interrupted_seconds(stats.interrupted_seconds);
  v1::LearntStepTimes& learnt = *message.mutable_learnt();
  learnt.set_step(stats.latency.step);
  learnt.set_decoder(stats.latency.decoder);
  learnt.set_context(stats.latency.context);
  learnt.set_prompt_token(stats.latency.prompt_token);
  learnt.set_prompt_pair(stats.latency.prompt_pair);
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
