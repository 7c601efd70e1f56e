// Cost of one scheduling decision: Plan() and Complete() around an imaginary step, on a steady decode batch
// with a queue behind it, and the admission of whole prompts from a deep queue.
#include <benchmark/benchmark.h>

#include <memory>
#include <numeric>
#include <utility>

#include "sched/scheduler.h"

namespace skipjack {
namespace {

constexpr const char* kPolicies[] = {"fcfs", "mlfq", "index"};

SchedulerConfig Config(std::int64_t policy, std::int32_t running) {
  SchedulerConfig config;
  config.policy = kPolicies[policy];
  config.max_batch_tokens = 2048;
  config.max_sequences = running;
  config.max_queued = 2000000;
  config.block_tokens = 16;
  config.kv_blocks = running * 256;
  config.context_length = 4096;
  return config;
}

void Submit(Scheduler* scheduler, SequenceId id, std::int32_t prompt_tokens, std::int32_t max_tokens) {
  SubmitRequest request;
  request.sequence = id;
  request.prompt.resize(static_cast<std::size_t>(prompt_tokens));
  std::iota(request.prompt.begin(), request.prompt.end(), static_cast<TokenId>(id * 131 % 1000000007));
  request.max_tokens = max_tokens;
  request.arrival = TimePoint(Duration(static_cast<std::int64_t>(id)));
  if (!scheduler->Submit(std::move(request)).ok()) std::abort();
}

void Step(Scheduler* scheduler, StepPlan* plan, StepResult* result) {
  scheduler->Plan(TimePoint(), plan);
  result->step = plan->step;
  result->outcomes.clear();
  for (const Slice& slice : plan->slices) {
    if (slice.sample) result->outcomes.push_back({.sequence = slice.sequence, .token = 7});
  }
  scheduler->Complete(*result, TimePoint());
}

// range(1) decoders with prompts of 512 tokens, range(2) sequences waiting. The clock stands still, so that
// nobody sinks and the batch stays as it is; policies are asked all the same.
void BM_DecodeStep(benchmark::State& state) {
  const auto running = static_cast<std::int32_t>(state.range(1));
  state.SetLabel(kPolicies[state.range(0)]);
  StepPlan plan;
  StepResult result;
  std::unique_ptr<Scheduler> scheduler;
  SequenceId next = 1;
  const auto start = [&] {
    scheduler = std::move(*Scheduler::Create(Config(state.range(0), running)));
    for (std::int32_t i = 0; i < running; ++i) Submit(scheduler.get(), next++, 512, 3000);
    while (plan.tokens.size() != static_cast<std::size_t>(running)) Step(scheduler.get(), &plan, &result);
    for (std::int64_t i = 0; i < state.range(2); ++i) Submit(scheduler.get(), next++, 32, 1000);
  };
  start();
  std::int32_t steps = 0;
  for (auto _ : state) {
    Step(scheduler.get(), &plan, &result);
    if (++steps < 2500) continue;
    state.PauseTiming();  // before the first ones end
    plan.Clear();
    start();
    steps = 0;
    state.ResumeTiming();
  }
  state.counters["per_sequence"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * running,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_DecodeStep)
    ->ArgNames({"policy", "running", "waiting"})
    ->Args({0, 1, 0})
    ->Args({0, 32, 0})
    ->Args({0, 32, 20000})
    ->ArgsProduct({{0, 1, 2}, {256}, {10000, 1000000}})
    ->Unit(benchmark::kMicrosecond);

// Sequences that come, compute a prompt of 64 tokens, sample once and go: all of a sequence's life but
// decoding.
void BM_Turnover(benchmark::State& state) {
  std::unique_ptr<Scheduler> scheduler = std::move(*Scheduler::Create(Config(state.range(0), 32)));
  StepPlan plan;
  StepResult result;
  SequenceId next = 1;
  state.SetLabel(kPolicies[state.range(0)]);
  for (std::int64_t i = 0; i < state.range(1); ++i) Submit(scheduler.get(), next++, 64, 1);
  std::int64_t ended = 0;
  for (auto _ : state) {
    Step(scheduler.get(), &plan, &result);
    for (std::size_t i = 0; i < plan.slices.size(); ++i) Submit(scheduler.get(), next++, 64, 1);
    ended += static_cast<std::int64_t>(plan.slices.size());
  }
  state.SetItemsProcessed(ended);
}
BENCHMARK(BM_Turnover)
    ->ArgNames({"policy", "waiting"})
    ->ArgsProduct({{0, 1, 2}, {100, 20000}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace skipjack

BENCHMARK_MAIN();
