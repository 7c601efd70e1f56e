// The /metrics page: collects from everybody who has something to say when it is scraped.
#pragma once

#include <prometheus/metric_family.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "obs/engine_metrics.h"

namespace skipjack {

// Helpers that build one-sample families; `labels` are name-value pairs.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

struct MetricSample {
  MetricLabels labels;
  double value = 0;
};

prometheus::MetricFamily CounterFamily(std::string name, std::string help,
                                       const std::vector<MetricSample>& samples);
prometheus::MetricFamily GaugeFamily(std::string name, std::string help,
                                     const std::vector<MetricSample>& samples);

// Thread-safe. Families of the same name from several sources are merged, so that each name appears once.
class MetricsPage {
 public:
  using Source = std::function<std::vector<prometheus::MetricFamily>()>;
  using EngineStatsSource = std::function<EngineStats()>;

  void Add(Source source);
  // The engine's counters and gauges (from its state, at scrape) and its distributions.
  void AddEngine(const std::string& model, EngineStatsSource stats, std::shared_ptr<EngineMetrics> metrics);

  // Prometheus text format 0.0.4.
  std::string Render() const;

 private:
  mutable std::mutex mutex_;
  std::vector<Source> sources_;
};

// What one engine's statistics look like as metrics.
std::vector<prometheus::MetricFamily> EngineFamilies(const std::string& model, const EngineStats& stats);
// Resident memory, CPU time, open descriptors and start time of this process, by Prometheus' usual names.
std::vector<prometheus::MetricFamily> ProcessFamilies();

}  // namespace skipjack
