// A step may be interrupted at any moment: whatever the threads were doing, they all come back, and computed
// again the step gives the same bits, and so do all steps after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

#include "backend/step_interrupt.h"
#include "tests/unit/backend/runner_harness.h"

namespace skipjack {
namespace {

constexpr std::int32_t kContext = 512;
constexpr std::int32_t kBlocks = kContext / 16;  // of one sequence
constexpr std::int32_t kSequences = 3;

struct Part {
  std::int32_t sequence = 0;
  std::int32_t count = 0;
  std::int32_t rows = 1;
};

// Prompts in chunks beside decoders; contexts of two softmax chunks; rows alone and together.
const std::vector<std::vector<Part>>& Script() {
  static const std::vector<std::vector<Part>> script = {{{0, 250}},
                                                        {{0, 1}, {1, 200, 0}},
                                                        {{0, 30}, {1, 150}, {2, 7}},
                                                        {{0, 1}, {1, 1}, {2, 1}},
                                                        {{1, 1}, {2, 100, 5}},
                                                        {{0, 1}},
                                                        {{0, 1}, {1, 1}, {2, 1}},
                                                        {{2, 140}, {0, 1}}};
  return script;
}

TokenId TokenAt(std::int32_t sequence, std::int32_t position, std::int32_t vocabulary) {
  return (sequence * 7919 + position * 31 + 5) % vocabulary;
}

struct Setup {
  std::string file;
  ComputeType compute;
  int threads;
  int interrupts;  // how often
  Isa isa = Isa::kAuto;
};

class InterruptTest : public testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    runner_ = Make();
    ASSERT_NE(runner_, nullptr);
    const auto fresh = Make();
    StartOver(0);
    for (const auto& parts : Script()) {
      Build(parts);
      const Result<StepLogits> logits = fresh->Forward({tokens_, slices_});
      ASSERT_TRUE(logits.ok());
      expected_.emplace_back(logits->data.begin(), logits->data.end());
    }
  }

  static std::unique_ptr<ModelRunner> Make() {
    CpuRunnerOptions options;
    options.compute = GetParam().compute;
    options.isa = GetParam().isa;
    options.threads = GetParam().threads;
    options.limits = SmallLimits(kContext);
    const auto model = ModelSource::Open(FixturePath("gguf/" + GetParam().file));
    if (!model.ok()) return nullptr;
    auto runner = CreateCpuRunner(*model, options, nullptr);
    EXPECT_TRUE(runner.ok()) << runner.status().ToString();
    return runner.ok() ? *std::move(runner) : nullptr;
  }

  // The script begins anew, in other blocks than the last time: what lies there is some other sequence's or
  // garbage.
  void StartOver(std::uint32_t round) {
    std::vector<BlockId> blocks(static_cast<std::size_t>(SmallLimits(kContext).kv_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    std::mt19937 random(round);
    std::ranges::shuffle(blocks, random);
    for (std::int32_t i = 0; i < kSequences; ++i) {
      const auto first = blocks.begin() + i * kBlocks;
      tables_[static_cast<std::size_t>(i)].assign(first, first + kBlocks);
    }
    positions_.fill(0);
  }

  void Build(const std::vector<Part>& parts) {
    tokens_.clear();
    slices_.clear();
    for (const Part& part : parts) {
      std::int32_t& position = positions_[static_cast<std::size_t>(part.sequence)];
      slices_.push_back({.token_offset = static_cast<std::int32_t>(tokens_.size()),
                         .token_count = part.count,
                         .position = position,
                         .block_table = tables_[static_cast<std::size_t>(part.sequence)],
                         .logits_rows = part.rows});
      for (std::int32_t i = 0; i < part.count; ++i) {
        tokens_.push_back(TokenAt(part.sequence, position + i, runner_->vocabulary()));
      }
      position += part.count;
    }
  }

  // The step as the next ticket. `before` and `meanwhile`, on another thread, may interrupt it.
  bool Run(const std::function<void(std::uint64_t)>& before,
           const std::function<void(std::uint64_t)>& meanwhile, const std::vector<float>& expected) {
    const std::uint64_t ticket = ++ticket_;
    if (before) before(ticket);
    std::thread other;
    if (meanwhile) other = std::thread([&] { meanwhile(ticket); });
    const Result<StepLogits> logits = runner_->Forward({tokens_, slices_, &interrupt_, ticket});
    if (other.joinable()) other.join();
    if (!logits.ok()) {
      EXPECT_EQ(logits.status().code(), StatusCode::kAborted) << logits.status().ToString();
      EXPECT_TRUE(interrupt_.IsRequested(ticket));
      return false;
    }
    EXPECT_EQ(logits->data.size(), expected.size());
    EXPECT_EQ(std::memcmp(logits->data.data(), expected.data(), expected.size() * sizeof(float)), 0);
    return true;
  }

  StepInterrupt interrupt_;
  std::uint64_t ticket_ = 0;
  std::unique_ptr<ModelRunner> runner_;
  std::vector<std::vector<float>> expected_;  // logits of the script's steps
  std::array<std::vector<BlockId>, kSequences> tables_;
  std::array<std::int32_t, kSequences> positions_{};
  std::vector<TokenId> tokens_;
  std::vector<BatchSlice> slices_;
};

// Takes as long for each number as CountDuring() does.
void Count(std::uint64_t limit) {
  const std::atomic<std::uint64_t> end{limit};
  for (std::uint64_t i = 0; i < end.load(std::memory_order_relaxed); ++i) {
  }
}

// How often another thread counts while a step computes: the measure of "at some moment of it".
std::uint64_t CountDuring(const std::function<void()>& step) {
  std::atomic<bool> counting{false};
  std::atomic<bool> done{false};
  std::uint64_t count = 0;
  std::thread counter([&] {
    counting = true;
    while (!done.load(std::memory_order_relaxed)) ++count;
  });
  while (!counting) std::this_thread::yield();
  step();
  done = true;
  counter.join();
  return count;
}

TEST_P(InterruptTest, AtAnyMomentItIsAsIfTheStepHadNotBegun) {
  std::mt19937_64 random(7);
  StartOver(0);
  Build(Script()[0]);
  const std::uint64_t most = CountDuring([&] { EXPECT_TRUE(Run({}, {}, expected_[0])); });
  int interrupted = 0;
  int requested = 0;
  for (std::uint32_t round = 1; requested < GetParam().interrupts; ++round) {
    StartOver(round);
    for (std::size_t step = 0; step < Script().size(); ++step) {
      Build(Script()[step]);
      for (int attempt = 0; attempt < 2; ++attempt) {
        ++requested;
        const std::uint64_t moment = random() % (most + most / 4 + 1);
        const bool done = Run(
            {},
            [&](std::uint64_t ticket) {
              Count(moment);
              interrupt_.Request(ticket);
            },
            expected_[step]);
        interrupted += !done;
        if (done) break;
      }
      ASSERT_TRUE(Run({}, {}, expected_[step])) << "round " << round << " step " << step;
    }
  }
  RecordProperty("interrupted", interrupted);
}

TEST_P(InterruptTest, BeforeItBeginsCountsAndOnceItHasEndedDoesNot) {
  for (std::uint32_t round = 1; round < 4; ++round) {
    StartOver(round);
    for (std::size_t step = 0; step < Script().size(); ++step) {
      Build(Script()[step]);
      const auto request = [this](std::uint64_t ticket) { interrupt_.Request(ticket); };
      const auto late = [this](std::uint64_t ticket) { interrupt_.Request(ticket - 1); };
      EXPECT_FALSE(Run(request, {}, expected_[step]));
      EXPECT_TRUE(Run(late, late, expected_[step]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runners, InterruptTest,
                         testing::Values(Setup{"llama.Q4_0.gguf", ComputeType::kInt8, 1, 50},
                                         Setup{"llama.Q4_0.gguf", ComputeType::kInt8, 2, 200},
                                         Setup{"llama.Q4_K_M.gguf", ComputeType::kInt8, 5, 50},
                                         Setup{"llama.F16.gguf", ComputeType::kBF16, 3, 50},
                                         Setup{"llama.F32.gguf", ComputeType::kF32, 2, 30, Isa::kGeneric}),
                         [](const auto& test) {
                           const Setup& setup = test.param;
                           return setup.file.substr(6, setup.file.size() - 11) + "_" +
                                  std::to_string(setup.threads) + "threads";
                         });

TEST(StepInterruptTest, TheLargestTicketCountsAndOlderStepsStayInterrupted) {
  StepInterrupt interrupt;
  EXPECT_FALSE(interrupt.IsRequested(1));
  interrupt.Request(3);
  interrupt.Request(2);
  EXPECT_TRUE(interrupt.IsRequested(3));
  EXPECT_TRUE(interrupt.IsRequested(2));
  EXPECT_FALSE(interrupt.IsRequested(4));
}

}  // namespace
}  // namespace skipjack
