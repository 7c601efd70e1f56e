#include "obs/engine_metrics.h"

#include <utility>

namespace skipjack {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// Two buckets an octave or so: fine enough to read a p99 from, few enough to scrape often.
Buckets StepBuckets() {
  return {0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05,
          0.075,  0.1,   0.15,  0.2,   0.3,   0.5,    1,    2,     5,    10,   30};
}

Buckets LatencyBuckets() {
  return {0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1,   1.5,
          2,     3,    5,    7.5,  10,   15,    20,  30,   45,  60,  120, 300,  600, 1800};
}

Buckets TokenBuckets() {
  return {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
}

prometheus::MetricFamily Family(const char* name, const char* help, const std::string& model,
                                const prometheus::Histogram& histogram) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = prometheus::MetricType::Histogram;
  prometheus::ClientMetric metric = histogram.Collect();
  metric.label.push_back({"model", model});
  family.metric.push_back(std::move(metric));
  return family;
}

}  // namespace

EngineMetrics::EngineMetrics(std::string model)
    : model_(std::move(model)),
      step_seconds_(StepBuckets()),
      step_tokens_(TokenBuckets()),
      inter_token_gap_(StepBuckets()),
      time_to_first_token_(LatencyBuckets()),
      queue_time_(LatencyBuckets()),
      time_per_output_token_(StepBuckets()),
      job_completion_time_(LatencyBuckets()),
      prompt_tokens_(TokenBuckets()),
      generated_tokens_(TokenBuckets()) {}

void EngineMetrics::OnStep(double seconds, std::int32_t prompt_tokens, std::int32_t decode_tokens) {
  step_seconds_.Observe(seconds);
  step_tokens_.Observe(static_cast<double>(prompt_tokens) + decode_tokens);
}

void EngineMetrics::OnToken(double gap_seconds) {
  inter_token_gap_.Observe(gap_seconds);
}

void EngineMetrics::OnFirstToken(double ttft_seconds, double queue_seconds) {
  time_to_first_token_.Observe(ttft_seconds);
  queue_time_.Observe(queue_seconds);
}

void EngineMetrics::OnFinish(const FinishEvent& event, double total_seconds) {
  // Who died before the first token has waited all the same: without them an overloaded queue looks short.
  if (event.generated_tokens == 0) queue_time_.Observe(event.timings.queue_seconds);
  // A cancelled or failed job has no completion time worth comparing; its outcome is counted elsewhere.
  if (event.reason != FinishReason::kStop && event.reason != FinishReason::kLength) return;
  job_completion_time_.Observe(total_seconds);
  prompt_tokens_.Observe(event.prompt_tokens);
  generated_tokens_.Observe(event.generated_tokens);
  if (event.generated_tokens > 1) {
    time_per_output_token_.Observe(event.timings.decode_seconds / (event.generated_tokens - 1));
  }
}

std::vector<prometheus::MetricFamily> EngineMetrics::Collect() const {
  return {
      Family("skipjack_step_time_seconds", "Duration of one engine step", model_, step_seconds_),
      Family("skipjack_step_tokens", "Tokens computed by one engine step", model_, step_tokens_),
      Family("skipjack_inter_token_gap_seconds", "Gap between two tokens of one sequence", model_,
             inter_token_gap_),
      Family("skipjack_time_to_first_token_seconds", "Submission until the first token (TTFT)", model_,
             time_to_first_token_),
      Family("skipjack_queue_time_seconds",
             "Submission until first scheduled, or until the end of those that never were", model_,
             queue_time_),
      Family("skipjack_time_per_output_token_seconds", "Mean gap of one finished sequence (TPOT)", model_,
             time_per_output_token_),
      Family("skipjack_job_completion_time_seconds", "Submission until the last token (JCT)", model_,
             job_completion_time_),
      Family("skipjack_prompt_length_tokens", "Prompt tokens of finished sequences", model_, prompt_tokens_),
      Family("skipjack_output_length_tokens", "Generated tokens of finished sequences", model_,
             generated_tokens_),
  };
}

}  // namespace skipjack
