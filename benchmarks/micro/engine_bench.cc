// What a step costs beside the model: planning, sampling, handing out tokens, completing. The runner computes
// nothing.
//
// The time is that of a decode step of `batch` sequences with a small vocabulary, without its planning. `best_us` is
// the shortest step seen.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace skipjack {
namespace {

constexpr std::int32_t kVocabulary = 1024;
constexpr std::int32_t kTokens = 512;

class IdleRunner final : public ModelRunner {
 public:
  explicit IdleRunner(std::int32_t rows) : logits_(static_cast<std::size_t>(rows) * kVocabulary) {
    for (std::size_t i = 0; i < logits_.size(); ++i) logits_[i] = static_cast<float>(i % 97);
  }

  Result<StepLogits> Forward(const StepBatch& batch) override {
    StepLogits logits = {logits_, 0, kVocabulary};
    for (const BatchSlice& slice : batch.slices) logits.rows += slice.logits_rows;
    return logits;
  }
  void CopyBlocks(std::span<const BlockCopy> /*copies*/, CopyReport* /*report*/) override {}
  void ParallelFor(std::int32_t count, const std::function<void(std::int32_t)>& body) override {
    for (std::int32_t i = 0; i < count; ++i) body(i);
  }
  std::int32_t vocabulary() const override { return kVocabulary; }
  std::string description() const override { return "idle"; }

 private:
  std::vector<float> logits_;
};

class Finishes {
 public:
  void Add() {
    std::lock_guard guard(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void WaitFor(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

class CountingSink final : public SequenceSink {
 public:
  explicit CountingSink(Finishes* finishes) : finishes_(finishes) {}
  bool OnToken(const TokenEvent&) override { return false; }
  void OnFinish(const FinishEvent&) override { finishes_->Add(); }

 private:
  Finishes* finishes_;
};

// Times full decode steps, on the loop's own thread.
class StepTimes final : public EngineObserver {
 public:
  explicit StepTimes(std::int32_t batch) : batch_(batch) {}
  void OnStep(double seconds, std::int32_t, std::int32_t decode_tokens) override {
    if (decode_tokens != batch_) return;
    total += seconds;
    best = std::min(best, seconds);
    ++steps;
  }
  void OnToken(double) override {}
  void OnFirstToken(double, double) override {}
  void OnFinish(const FinishEvent&, double) override {}

  double total = 0.0;
  double best = std::numeric_limits<double>::infinity();
  std::int64_t steps = 0;

 private:
  const std::int32_t batch_;
};

void DecodeStep(benchmark::State& state) {
  const auto batch = static_cast<std::int32_t>(state.range(0));
  double best = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    auto times = std::make_shared<StepTimes>(batch);
    EngineOptions options;
    options.scheduler = {.max_batch_tokens = 4 * batch,
                         .max_sequences = batch,
                         .kv_blocks = batch * (kTokens / 16 + 2),
                         .context_length = kTokens + 16,
                         .prefix_cache = true};
    auto engine = Engine::Create(std::make_unique<IdleRunner>(batch), options, times);
    Finishes finishes;
    for (std::int32_t i = 0; i < batch; ++i) {
      SequenceRequest request;
      request.prompt = {i, 2, 3, 4};
      request.sampling.temperature = 0.0f;
      request.sampling.max_tokens = kTokens;
      if (!(*engine)->Submit(std::move(request), std::make_shared<CountingSink>(&finishes)).ok())
        std::abort();
    }
    finishes.WaitFor(batch);
    engine->reset();
    state.SetIterationTime(times->steps > 0 ? times->total / static_cast<double>(times->steps) : 0.0);
    best = std::min(best, times->best);
  }
  state.counters["best_us"] = best * 1e6;
}

BENCHMARK(DecodeStep)
    ->Arg(1)
    ->Arg(8)
    ->Arg(32)
    ->Arg(256)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(20);

}  // namespace
}  // namespace skipjack

BENCHMARK_MAIN();
