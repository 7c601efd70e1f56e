// A step allocates nothing, not even the first full one. A program of its own: it replaces the global
// allocation functions.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "tests/support/allocation_counter.h"

namespace skipjack {
namespace {

constexpr std::int32_t kSequences = 8;
constexpr std::int32_t kPromptTokens = 16;
constexpr std::int32_t kVocabulary = 512;

// A step as it began, and how many allocations there had been by then.
struct Note {
  std::uint64_t allocations = 0;
  std::size_t tokens = 0;
};

class NotingRunner final : public ModelRunner {
 public:
  // `notes` has room.
  NotingRunner(std::function<void()> on_forward, std::vector<Note>* notes)
      : on_forward_(std::move(on_forward)),
        notes_(notes),
        logits_(static_cast<std::size_t>(kSequences) * kVocabulary) {}

  Result<StepLogits> Forward(const StepBatch& batch) override {
    on_forward_();
    notes_->push_back({AllocationCount(), batch.tokens.size()});
    for (std::size_t i = 0; i < logits_.size(); ++i)
      logits_[i] = static_cast<float>(i * 7919 % 1009) / 100.0f;
    StepLogits logits = {logits_, 0, kVocabulary};
    for (const BatchSlice& slice : batch.slices) logits.rows += slice.logits_rows;
    return logits;
  }
  void CopyBlocks(std::span<const BlockCopy> /*copies*/, CopyReport* /*report*/) override {}
  void ParallelFor(std::int32_t count, const std::function<void(std::int32_t)>& body) override {
    for (std::int32_t i = 0; i < count; ++i) body(i);
  }
  std::int32_t vocabulary() const override { return kVocabulary; }
  std::string description() const override { return "noting"; }

 private:
  const std::function<void()> on_forward_;
  std::vector<Note>* const notes_;
  std::vector<float> logits_;
};

class SilentSink final : public SequenceSink {
 public:
  explicit SilentSink(std::atomic<int>* finished) : finished_(finished) {}
  bool OnToken(const TokenEvent&) override { return false; }
  void OnFinish(const FinishEvent&) override {
    ++*finished_;
    finished_->notify_all();
  }

 private:
  std::atomic<int>* finished_;
};

SequenceRequest Request(std::int32_t seed, std::int32_t max_tokens) {
  SequenceRequest request;
  for (std::int32_t i = 0; i < kPromptTokens; ++i) request.prompt.push_back((seed * 31 + i) % kVocabulary);
  request.sampling.temperature = 1.0f;
  request.sampling.top_p = 0.9f;
  request.sampling.top_logprobs = 20;
  request.sampling.max_tokens = max_tokens;
  return request;
}

TEST(StepCostTest, NotEvenTheFirstFullStepAllocates) {
  std::vector<Note> notes;
  notes.reserve(1000);
  std::atomic<bool> open{true};  // the warm-up passes
  std::atomic<bool> held{false};
  const auto gate = [&] {
    held = !open;
    held.notify_all();
    open.wait(false);
  };
  EngineOptions options;
  options.scheduler = {.max_batch_tokens = kSequences * kPromptTokens,
                       .max_sequences = kSequences,
                       .block_tokens = 16,
                       .kv_blocks = 100,
                       .context_length = 64};
  options.warm_up = Duration(1);  // the smallest
  auto engine = Engine::Create(std::make_unique<NotingRunner>(gate, &notes), options, nullptr);
  ASSERT_TRUE(engine.ok()) << engine.status().ToString();

  // The first sequence holds the step thread until the others are all there.
  open = false;
  std::atomic<int> finished{0};
  for (std::int32_t i = 0; i < kSequences; ++i) {
    // Nobody ends before the fifth step.
    ASSERT_TRUE((*engine)->Submit(Request(i, 5), std::make_shared<SilentSink>(&finished)).ok());
    if (i == 0) held.wait(false);
  }
  open = true;
  open.notify_all();
  for (int seen = finished; seen < kSequences; seen = finished) finished.wait(seen);
  engine->reset();

  // The second step decodes the first sequence and computes the prompts of all others. Nothing arrives or
  // ends from then until the fifth begins.
  constexpr std::size_t kFullStep = 1 + (kSequences - 1) * kPromptTokens;
  std::size_t full = 0;
  while (full < notes.size() && notes[full].tokens != kFullStep) ++full;
  ASSERT_LT(full + 3, notes.size());
  EXPECT_EQ(notes[full + 3].allocations - notes[full].allocations, 0u);
}

}  // namespace
}  // namespace skipjack
