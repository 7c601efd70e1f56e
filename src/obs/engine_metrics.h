// The distributions of one model's engine: what happened, observed as it happens. Everything that is a state
// (queue depth, blocks in use) or a counter of the engine is read from the engine when scraped instead
// (metrics_page.h).
#pragma once

#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "engine/engine.h"

namespace skipjack {

// Thread-safe: the engine's step thread observes, a scrape collects.
class EngineMetrics final : public EngineObserver {
 public:
  explicit EngineMetrics(std::string model);

  void OnStep(double seconds, std::int32_t prompt_tokens, std::int32_t decode_tokens) override;
  void OnToken(double gap_seconds) override;
  void OnFirstToken(double ttft_seconds, double queue_seconds) override;
  void OnFinish(const FinishEvent& event, double total_seconds) override;

  // One family per distribution, labelled with the model.
  std::vector<prometheus::MetricFamily> Collect() const;

 private:
  std::string model_;
  prometheus::Histogram step_seconds_;
  prometheus::Histogram step_tokens_;
  prometheus::Histogram inter_token_gap_;
  prometheus::Histogram time_to_first_token_;
  prometheus::Histogram queue_time_;
  prometheus::Histogram time_per_output_token_;
  prometheus::Histogram job_completion_time_;
  prometheus::Histogram prompt_tokens_;
  prometheus::Histogram generated_tokens_;
};

}  // namespace skipjack
