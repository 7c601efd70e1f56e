// Whole steps of the CPU engine on a real model: prefill of 512 tokens, decode at batch 1, 8, 32 and two
// contexts; and how long a prefill of 512 tokens takes to stop when it is interrupted somewhere in its
// middle.
//
//   forward_bench --model=FILE.gguf [--threads=N] [--compute=auto|f32|bf16|int8] [--benchmark_filter=decode]
//
// Per case: tokens per second of the best and of the median step, and tokens per second of processor time
// (all threads), which a shared machine disturbs least.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_runner.h"

namespace skipjack {
namespace {

constexpr std::int32_t kContext = 1024;
constexpr std::int32_t kMaxBatch = 32;
constexpr std::int32_t kPrefill = 512;

struct Arguments {
  std::string model;
  CpuRunnerOptions options;
};

// The runner and sequences whose block tables do not overlap.
struct Fixture {
  std::unique_ptr<ModelRunner> runner;
  std::vector<std::vector<BlockId>> tables;
};

Fixture fixture;  // made in main, before any benchmark runs

double ProcessSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Repeats the step and reports its speed.
void Measure(benchmark::State& state, const StepBatch& batch) {
  std::vector<double> seconds;
  double cpu = 0.0;
  for (auto _ : state) {
    const double cpu_start = ProcessSeconds();
    const auto start = std::chrono::steady_clock::now();
    const Result<StepLogits> logits = fixture.runner->Forward(batch);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!logits.ok()) return state.SkipWithError(logits.status().message().c_str());
    seconds.push_back(elapsed.count());
    cpu += ProcessSeconds() - cpu_start;
    state.SetIterationTime(elapsed.count());
  }
  std::sort(seconds.begin(), seconds.end());
  const auto tokens = static_cast<double>(batch.tokens.size());
  state.counters["best"] = tokens / seconds.front();
  state.counters["median"] = tokens / seconds[seconds.size() / 2];
  state.counters["per_cpu_s"] = tokens * static_cast<double>(seconds.size()) / cpu;
}

std::vector<TokenId> SomeTokens(std::int32_t count) {
  std::vector<TokenId> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back((i * 7919 + 13) % fixture.runner->vocabulary());
  return tokens;
}

void Prefill(benchmark::State& state) {
  const std::vector<TokenId> tokens = SomeTokens(kPrefill);
  const BatchSlice slice = {0, kPrefill, 0, fixture.tables[0], 1};
  Measure(state, {tokens, {&slice, 1}});
}

// From the interrupt of a prefill, at moments spread over all of it, until Forward() returns; and the
// processor time that all threads take meanwhile, which does not count how long they wait for a core.
void Interrupt(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  const std::vector<TokenId> tokens = SomeTokens(kPrefill);
  const BatchSlice slice = {0, kPrefill, 0, fixture.tables[0], 1};
  const auto start = Clock::now();
  const Result<StepLogits> whole = fixture.runner->Forward({tokens, {&slice, 1}});
  const auto length = Clock::now() - start;
  if (!whole.ok()) return state.SkipWithError(whole.status().message().c_str());
  StepInterrupt interrupt;
  std::uint64_t ticket = 0;
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  for (auto _ : state) {
    ++ticket;
    Clock::time_point asked;
    double cpu_asked = 0;
    std::thread other([&] {
      std::this_thread::sleep_for(length * static_cast<int>(ticket * 37 % 100) / 110);
      asked = Clock::now();
      cpu_asked = ProcessSeconds();
      interrupt.Request(ticket);
    });
    const Result<StepLogits> logits = fixture.runner->Forward({tokens, {&slice, 1}, &interrupt, ticket});
    const double cpu_stopped = ProcessSeconds();
    const auto stopped = Clock::now();
    other.join();
    const std::chrono::duration<double> elapsed = stopped - asked;
    state.SetIterationTime(std::max(elapsed.count(), 1e-9));
    if (logits.ok()) continue;
    seconds.push_back(elapsed.count());
    cpu_seconds.push_back(cpu_stopped - cpu_asked);
  }
  if (seconds.empty()) return state.SkipWithError("no step was interrupted");
  std::sort(seconds.begin(), seconds.end());
  std::sort(cpu_seconds.begin(), cpu_seconds.end());
  state.counters["interrupted"] = static_cast<double>(seconds.size());
  state.counters["median_us"] = 1e6 * seconds[seconds.size() / 2];
  state.counters["p95_us"] = 1e6 * seconds[seconds.size() * 95 / 100];
  state.counters["worst_us"] = 1e6 * seconds.back();
  state.counters["cpu_median_us"] = 1e6 * cpu_seconds[cpu_seconds.size() / 2];
  state.counters["cpu_worst_us"] = 1e6 * cpu_seconds.back();
}

// One token for each of `batch` sequences whose caches hold `context` tokens.
void Decode(benchmark::State& state, std::int32_t batch, std::int32_t context) {
  const std::vector<TokenId> prompt = SomeTokens(context);
  for (std::int32_t i = 0; i < batch; ++i) {
    const BatchSlice slice = {0, context, 0, fixture.tables[static_cast<std::size_t>(i)], 0};
    const Result<StepLogits> filled = fixture.runner->Forward({prompt, {&slice, 1}});
    if (!filled.ok()) return state.SkipWithError(filled.status().message().c_str());
  }
  const std::vector<TokenId> tokens = SomeTokens(batch);
  std::vector<BatchSlice> slices;
  for (std::int32_t i = 0; i < batch; ++i) {
    slices.push_back({i, 1, context, fixture.tables[static_cast<std::size_t>(i)], 1});
  }
  Measure(state, {tokens, slices});
}

bool Take(std::string_view argument, std::string_view name, std::string_view* value) {
  if (!argument.starts_with(name)) return false;
  *value = argument.substr(name.size());
  return true;
}

bool Parse(int count, char** values, Arguments* arguments) {
  for (int i = 1; i < count; ++i) {
    std::string_view value;
    if (Take(values[i], "--model=", &value)) {
      arguments->model = value;
    } else if (Take(values[i], "--threads=", &value)) {
      arguments->options.threads = std::stoi(std::string(value));
    } else if (Take(values[i], "--compute=", &value)) {
      arguments->options.compute = value == "f32"    ? ComputeType::kF32
                                   : value == "bf16" ? ComputeType::kBF16
                                   : value == "int8" ? ComputeType::kInt8
                                                     : ComputeType::kAuto;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", values[i]);
      return false;
    }
  }
  return !arguments->model.empty();
}

Status MakeFixture(Arguments& arguments) {
  Result<std::shared_ptr<const ModelSource>> model = ModelSource::Open(arguments.model);
  if (!model.ok()) return model.status();
  RunnerLimits& limits = arguments.options.limits;
  limits.context_length = kContext;
  limits.max_step_tokens = kPrefill;
  limits.max_slices = kMaxBatch;
  limits.max_logits_rows = kMaxBatch;
  const std::int32_t blocks = kContext / limits.block_tokens;
  limits.kv_blocks = blocks * kMaxBatch;
  Result<std::unique_ptr<ModelRunner>> runner = CreateCpuRunner(*model, arguments.options, nullptr);
  if (!runner.ok()) return runner.status();
  fixture.runner = std::move(*runner);
  for (std::int32_t i = 0; i < kMaxBatch; ++i) {
    std::vector<BlockId> table;
    for (std::int32_t b = 0; b < blocks; ++b) table.push_back(b * kMaxBatch + i);
    fixture.tables.push_back(std::move(table));
  }
  std::printf("%s\n", fixture.runner->description().c_str());
  return {};
}

void Register() {
  benchmark::RegisterBenchmark("prefill/512", Prefill)
      ->UseManualTime()
      ->Iterations(10)
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("interrupt/512", Interrupt)
      ->UseManualTime()
      ->Iterations(40)
      ->Unit(benchmark::kMicrosecond);
  for (const std::int32_t context : {64, 512}) {
    for (const std::int32_t batch : {1, 8, 32}) {
      const std::string name =
          "decode/batch:" + std::to_string(batch) + "/context:" + std::to_string(context);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& state) { Decode(state, batch, context); })
          ->UseManualTime()
          ->Iterations(batch == 1 ? 100 : 40)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace skipjack

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  skipjack::Arguments arguments;
  if (!skipjack::Parse(argc, argv, &arguments)) {
    std::fprintf(stderr,
                 "usage: forward_bench --model=FILE.gguf [--threads=N] [--compute=auto|f32|bf16|int8]\n");
    return 2;
  }
  if (const skipjack::Status status = skipjack::MakeFixture(arguments); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  skipjack::Register();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
