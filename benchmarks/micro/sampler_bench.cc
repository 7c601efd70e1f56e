// Time to choose one token, per vocabulary, shape of the distribution and request.
//
//   sampler_bench --benchmark_filter='262144/.*top_p' --benchmark_repetitions=20
//
// "peaked" is a bulk of logits 25 below some forty likely tokens, as language models give it; "flat" is
// normal with deviation 1.5, where half of the mass is spread over thousands of tokens: the worst case for
// top_p. Read the minimum of many repetitions: on a shared machine the others measure the neighbours.
// `best_us` is that minimum over single calls.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "sampling/sequence_sampler.h"

namespace skipjack {
namespace {

std::vector<float> FlatRow(std::int32_t vocabulary) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 1.5f);
  std::vector<float> row(static_cast<std::size_t>(vocabulary));
  for (float& logit : row) logit = normal(random);
  return row;
}

std::vector<float> PeakedRow(std::int32_t vocabulary) {
  std::vector<float> row = FlatRow(vocabulary);
  std::mt19937 random(2);
  for (int i = 0; i < 40; ++i) row[random() % row.size()] = 25.0f - 0.3f * static_cast<float>(i);
  return row;
}

struct Case {
  std::string name;
  SamplingParams params;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const std::function<void(SamplingParams&)>& set) {
    SamplingParams params;
    params.max_tokens = std::numeric_limits<std::int32_t>::max();
    set(params);
    cases.push_back({name, params});
  };
  add("greedy", [](auto& p) { p.temperature = 0.0f; });
  add("temperature", [](auto&) {});
  add("top_p", [](auto& p) { p.top_p = 0.95f; });
  add("top_k", [](auto& p) { p.top_k = 40; });
  add("min_p", [](auto& p) { p.min_p = 0.05f; });
  add("top_k+top_p+min_p", [](auto& p) {
    p.top_k = 40;
    p.top_p = 0.95f;
    p.min_p = 0.05f;
  });
  add("typical_p", [](auto& p) { p.typical_p = 0.95f; });
  add("penalties", [](auto& p) {
    p.temperature = 0.0f;
    p.repetition_penalty = 1.1f;
    p.frequency_penalty = 0.5f;
  });
  add("greedy+logprobs", [](auto& p) {
    p.temperature = 0.0f;
    p.top_logprobs = 5;
  });
  return cases;
}

void RunCase(benchmark::State& state, const std::vector<float>& row, const SamplingParams& params) {
  std::mt19937 random(3);
  std::vector<TokenId> prompt(1000);
  for (TokenId& token : prompt) token = static_cast<TokenId>(random() % row.size());
  const SequenceSampler sampler(params, prompt, {2});
  SamplerScratch scratch(static_cast<std::int32_t>(row.size()));
  SampledToken chosen;
  std::vector<float> logits = row;
  const bool overwrites = params.typical_p < 1.0f || params.repetition_penalty != 1.0f;
  std::uint64_t position = 0;
  double best = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    if (overwrites) std::copy(row.begin(), row.end(), logits.begin());
    const auto start = std::chrono::steady_clock::now();
    const Status status = sampler.Sample(logits, position++, &scratch, &chosen);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
    if (!status.ok()) state.SkipWithError(status.message().c_str());
    benchmark::DoNotOptimize(chosen.token);
    best = std::min(best, took.count());
    state.SetIterationTime(took.count() * 1e-6);
  }
  state.counters["best_us"] = best;
}

}  // namespace
}  // namespace skipjack

int main(int argc, char** argv) {
  using namespace skipjack;  // NOLINT: a program of one file
  for (const std::int32_t vocabulary : {49152, 262144}) {
    for (const bool peaked : {true, false}) {
      const std::vector<float> row = peaked ? PeakedRow(vocabulary) : FlatRow(vocabulary);
      for (const Case& c : Cases()) {
        const std::string name = std::to_string(vocabulary) + (peaked ? "/peaked/" : "/flat/") + c.name;
        benchmark::RegisterBenchmark(
            name.c_str(), [row, params = c.params](benchmark::State& state) { RunCase(state, row, params); })
            ->UseManualTime()
            ->Unit(benchmark::kMicrosecond)
            ->MinTime(0.2);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
