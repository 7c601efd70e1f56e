#include "obs/metrics_page.h"

#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

namespace skipjack {
namespace {

prometheus::MetricFamily Family(std::string name, std::string help, prometheus::MetricType type,
                                const std::vector<MetricSample>& samples) {
  prometheus::MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  for (const MetricSample& sample : samples) {
    prometheus::ClientMetric metric;
    for (const auto& [label, value] : sample.labels) metric.label.push_back({label, value});
    if (type == prometheus::MetricType::Counter) {
      metric.counter.value = sample.value;
    } else {
      metric.gauge.value = sample.value;
    }
    family.metric.push_back(std::move(metric));
  }
  return family;
}

double Number(std::uint64_t value) {
  return static_cast<double>(value);
}

// Pages of resident memory, from /proc/self/statm.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// In seconds since 1970: the boot's time and the clock ticks from there, field 22 of /proc/self/stat.
double StartTime() {
  constexpr int kStartTicks = 22;
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  // The command's name (field 2) may hold anything, so count from the bracket behind it.
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= kStartTicks; ++i) fields >> field;
  double boot = 0;
  std::ifstream machine("/proc/stat");
  for (std::string name; machine >> name && name != "btime";) {
    machine.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  machine >> boot;
  return boot + std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double OpenDescriptors() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

prometheus::MetricFamily CounterFamily(std::string name, std::string help,
                                       const std::vector<MetricSample>& samples) {
  return Family(std::move(name), std::move(help), prometheus::MetricType::Counter, samples);
}

prometheus::MetricFamily GaugeFamily(std::string name, std::string help,
                                     const std::vector<MetricSample>& samples) {
  return Family(std::move(name), std::move(help), prometheus::MetricType::Gauge, samples);
}

std::vector<prometheus::MetricFamily> EngineFamilies(const std::string& model, const EngineStats& stats) {
  const SchedulerStats& sched = stats.scheduler;
  const auto one = [&](double value) { return std::vector<MetricSample>{{{{"model", model}}, value}}; };
  const auto outcome = [&](const char* name, std::uint64_t value) {
    return MetricSample{{{"model", model}, {"outcome", name}}, Number(value)};
  };
  const auto blocks = [&](const char* tier, const char* state, std::int32_t value) {
    return MetricSample{{{"model", model}, {"tier", tier}, {"state", state}}, static_cast<double>(value)};
  };
  const auto copied = [&](const char* what, std::uint64_t value) {
    return MetricSample{{{"model", model}, {"what", what}}, Number(value)};
  };
  std::vector<MetricSample> sequences;
  for (std::size_t level = 0; level < kLevelBands; ++level) {
    const auto at = [&](const char* state, std::int32_t count) {
      return MetricSample{{{"model", model}, {"level", std::to_string(level)}, {"state", state}},
                          static_cast<double>(count)};
    };
    sequences.push_back(at("waiting", sched.waiting_by_level[level]));
    sequences.push_back(at("running", sched.running_by_level[level]));
  }
  std::vector<MetricSample> preemptions;
  for (std::size_t cause = 0; cause < kPreemptionCauses; ++cause) {
    const std::string_view name = PreemptionCauseName(static_cast<PreemptionCause>(cause));
    preemptions.push_back(
        {{{"model", model}, {"cause", std::string(name)}}, Number(sched.preemptions_by_cause[cause])});
  }
  return {
      CounterFamily("skipjack_requests_total", "Sequences that ended, by outcome",
                    {outcome("stop", stats.finished_stop), outcome("length", stats.finished_length),
                     outcome("cancelled", stats.finished_cancelled), outcome("error", stats.finished_error),
                     outcome("rejected", stats.rejected)}),
      CounterFamily("skipjack_prompt_tokens_total", "Prompt tokens computed or taken from the prefix cache",
                    one(Number(stats.prompt_tokens))),
      CounterFamily("skipjack_generation_tokens_total", "Generated tokens",
                    one(Number(stats.generated_tokens))),
      CounterFamily("skipjack_steps_total", "Engine steps", one(Number(stats.steps))),
      CounterFamily("skipjack_interrupted_steps_total", "Steps dropped because a realtime request came",
                    one(Number(stats.interrupted_steps))),
      CounterFamily("skipjack_interrupted_seconds_total", "Time lost to interrupted steps",
                    one(stats.interrupted_seconds)),
      CounterFamily("skipjack_non_finite_logits_total",
                    "Sequences that ended because their logits were not finite",
                    one(Number(stats.non_finite_logits))),
      GaugeFamily("skipjack_requests_running", "Sequences that hold a place in the batch",
                  one(sched.running)),
      GaugeFamily("skipjack_requests_waiting", "Sequences that wait for a place",
                  one(static_cast<double>(sched.waiting) + stats.pending_submissions)),
      GaugeFamily("skipjack_requests_swapped", "Sequences whose KV is out of the pool", one(sched.swapped)),
      GaugeFamily(
          "skipjack_kv_blocks", "KV blocks by tier and state (cached: unreferenced, kept for prefix hits)",
          {blocks("device", "used", sched.blocks_used), blocks("device", "cached", sched.blocks_cached),
           blocks("device", "free", sched.blocks_free),
           blocks("host", "cached", sched.host_blocks_total - sched.host_blocks_free),
           blocks("host", "free", sched.host_blocks_free),
           blocks("disk", "cached", sched.disk_blocks_total - sched.disk_blocks_free),
           blocks("disk", "free", sched.disk_blocks_free)}),
      CounterFamily("skipjack_kv_copied_blocks_total", "KV blocks copied between tiers, by what for",
                    {copied("out", sched.swap.out), copied("in", sched.swap.in),
                     copied("demoted", sched.swap.demoted)}),
      CounterFamily("skipjack_kv_awaited_copies_total", "Of these, copies that a step had to wait for",
                    one(Number(sched.swap.before))),
      CounterFamily("skipjack_kv_copy_wait_seconds_total", "Step time spent waiting for copies",
                    one(stats.copy_wait_seconds)),
      CounterFamily("skipjack_kv_failed_copies_total", "Copies that failed; what they lost is computed again",
                    one(Number(sched.swap.failed))),
      CounterFamily("skipjack_kv_dropped_blocks_total",
                    "KV blocks that somebody waited for and no tier had room for",
                    one(Number(sched.swap.dropped))),
      CounterFamily("skipjack_preemptions_total", "Times a sequence lost its KV and was recomputed",
                    one(Number(sched.preemptions))),
      GaugeFamily("skipjack_scheduler_sequences", "Sequences by level of the policy; the last is or deeper",
                  sequences),
      CounterFamily("skipjack_scheduler_preemptions_total", "Preemptions, by what they were for",
                    preemptions),
      CounterFamily("skipjack_scheduler_promotions_total",
                    "Sequences that went ahead for having waited too long", one(Number(sched.promotions))),
      CounterFamily("skipjack_scheduler_demotions_total", "Times a sequence sank to a deeper level",
                    one(Number(sched.demotions))),
      CounterFamily("skipjack_recomputed_tokens_total", "Tokens computed again after a preemption",
                    one(Number(sched.recomputed_tokens))),
      CounterFamily("skipjack_restoring_seconds_total", "Step time that went into those, as learnt",
                    one(sched.restoring_seconds)),
      CounterFamily("skipjack_prefix_cache_queried_tokens_total",
                    "Prompt tokens looked up in the prefix cache", one(Number(sched.prefix_queries_tokens))),
      CounterFamily("skipjack_prefix_cache_hit_tokens_total", "Prompt tokens found in the prefix cache",
                    one(Number(sched.prefix_hit_tokens))),
      CounterFamily("skipjack_scheduler_faults_total",
                    "Broken rules found in the scheduler's own books: anything but 0 is a defect",
                    one(Number(sched.faults))),
  };
}

std::vector<prometheus::MetricFamily> ProcessFamilies() {
  static const double kStartTime = StartTime();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {
      GaugeFamily("process_resident_memory_bytes", "Resident memory", {{{}, ResidentBytes()}}),
      CounterFamily("process_cpu_seconds_total", "User and system CPU time",
                    {{{}, seconds(usage.ru_utime) + seconds(usage.ru_stime)}}),
      GaugeFamily("process_open_fds", "Open file descriptors", {{{}, OpenDescriptors()}}),
      GaugeFamily("process_start_time_seconds", "When the process started, in seconds since 1970",
                  {{{}, kStartTime}}),
  };
}

void MetricsPage::Add(Source source) {
  const std::lock_guard lock(mutex_);
  sources_.push_back(std::move(source));
}

void MetricsPage::AddEngine(const std::string& model, EngineStatsSource stats,
                            std::shared_ptr<EngineMetrics> metrics) {
  Add([model, stats = std::move(stats)] { return EngineFamilies(model, stats()); });
  if (metrics) Add([metrics = std::move(metrics)] { return metrics->Collect(); });
}

std::string MetricsPage::Render() const {
  std::vector<Source> sources;
  {
    const std::lock_guard lock(mutex_);
    sources = sources_;
  }
  std::vector<prometheus::MetricFamily> merged;
  std::map<std::string, std::size_t> index;
  for (const Source& source : sources) {
    for (prometheus::MetricFamily& family : source()) {
      const auto [it, is_new] = index.emplace(family.name, merged.size());
      if (is_new) {
        merged.push_back(std::move(family));
        continue;
      }
      std::vector<prometheus::ClientMetric>& into = merged[it->second].metric;
      into.insert(into.end(), family.metric.begin(), family.metric.end());
    }
  }
  return prometheus::TextSerializer().Serialize(merged);
}

}  // namespace skipjack
