#include "backend/fake/fake_runner.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "base/thread_name.h"

namespace skipjack {
namespace {

constexpr float kFirstLogit = 6.0f;
constexpr float kNoiseRange = 4.0f;

// What the pool keeps of one token: enough to notice another token or another position.
struct CachedToken {
  TokenId token = -1;
  std::int32_t position = -1;
};

// The finalizer of SplitMix64 (Steele et al., 2014).
std::uint64_t Mix(std::uint64_t value) {
  value ^= value >> 30;
  value *= 0xBF58476D1CE4E5B9ull;
  value ^= value >> 27;
  value *= 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

std::uint64_t Extend(std::uint64_t chain, CachedToken cached) {
  const std::uint64_t token = static_cast<std::uint32_t>(cached.token);
  const std::uint64_t position = static_cast<std::uint32_t>(cached.position);
  return Mix(chain ^ Mix((position << 32) | token));
}

TokenId FirstToken(std::uint64_t chain, std::int32_t vocabulary) {
  return static_cast<TokenId>(Mix(chain) % static_cast<std::uint64_t>(vocabulary));
}

void FillLogits(std::uint64_t chain, std::span<float> logits) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto noise = static_cast<float>(Mix(chain + i + 1) >> 40) * 0x1p-24f;
    logits[i] = kNoiseRange * noise;
  }
  logits[static_cast<std::size_t>(FirstToken(chain, static_cast<std::int32_t>(logits.size())))] = kFirstLogit;
}

// Threads that share the indices of one loop at a time with their caller.
class Crew {
 public:
  explicit Crew(std::int32_t threads) {
    for (std::int32_t i = 1; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }

  ~Crew() {
    {
      std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Run(std::int32_t count, const std::function<void(std::int32_t)>& body) {
    {
      std::lock_guard guard(mutex_);
      body_ = &body;
      count_ = count;
      next_ = 0;
      busy_ = threads_.size();
      ++round_;
    }
    wake_.notify_all();
    TakeShare(body, count);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void TakeShare(const std::function<void(std::int32_t)>& body, std::int32_t count) {
    for (std::int32_t i = next_.fetch_add(1); i < count; i = next_.fetch_add(1)) body(i);
  }

  void Work() {
    SetThreadName("fake-runner");
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || round_ != seen; });
      if (stopping_) return;
      seen = round_;
      const auto* body = body_;
      const std::int32_t count = count_;
      lock.unlock();
      TakeShare(*body, count);
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(std::int32_t)>* body_ = nullptr;
  std::int32_t count_ = 0;
  std::atomic<std::int32_t> next_{0};
  std::size_t busy_ = 0;
  std::uint64_t round_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

class FakeRunner final : public ModelRunner {
 public:
  explicit FakeRunner(FakeRunnerOptions options) : options_(std::move(options)), crew_(options_.threads) {
    const RunnerLimits& limits = options_.limits;
    pool_.resize(static_cast<std::size_t>(limits.tiers().total()) *
                 static_cast<std::size_t>(limits.block_tokens));
    logits_.resize(static_cast<std::size_t>(limits.max_logits_rows) *
                   static_cast<std::size_t>(options_.vocabulary));
  }

  Result<StepLogits> Forward(const StepBatch& batch) override {
    if (options_.on_forward) {
      if (Status status = options_.on_forward(batch); !status.ok()) return status;
    }
    if (Status status = CheckBatch(batch); !status.ok()) return status;
    for (const BatchSlice& slice : batch.slices) {
      if (batch.IsInterrupted()) return Stop(batch);
      Write(batch, slice);
    }
    StepLogits result = {logits_, 0, options_.vocabulary};
    for (const BatchSlice& slice : batch.slices) {
      if (batch.IsInterrupted()) return Stop(batch);
      for (std::int32_t i = slice.token_count - slice.logits_rows; i < slice.token_count; ++i) {
        const std::span<float> row = result.Row(result.rows);
        FillLogits(Chain(slice, slice.position + i + 1), row);
        if (options_.on_logits) options_.on_logits(result.rows, row);
        ++result.rows;
      }
    }
    return result;
  }

  void CopyBlocks(std::span<const BlockCopy> copies, CopyReport* report) override {
    const auto size = static_cast<std::ptrdiff_t>(options_.limits.block_tokens);
    for (const BlockCopy& copy : copies) {
      if (options_.on_copy && !options_.on_copy(copy)) {
        report->failed.push_back(copy.to);
        report->why = "refused";
        continue;
      }
      std::copy_n(pool_.begin() + copy.from * size, size, pool_.begin() + copy.to * size);
    }
  }

  void ParallelFor(std::int32_t count, const std::function<void(std::int32_t)>& body) override {
    crew_.Run(count, body);
  }

  std::int32_t vocabulary() const override { return options_.vocabulary; }
  std::string description() const override { return "fake threads=" + std::to_string(options_.threads); }

 private:
  Status CheckBatch(const StepBatch& batch) const {
    const RunnerLimits& limits = options_.limits;
    if (batch.tokens.size() > static_cast<std::size_t>(limits.max_step_tokens))
      return Refuse("too many tokens");
    if (batch.slices.size() > static_cast<std::size_t>(limits.max_slices)) return Refuse("too many slices");
    for (const TokenId token : batch.tokens) {
      if (token < 0 || token >= options_.vocabulary) return Refuse("token outside the vocabulary");
    }
    std::int32_t offset = 0;
    std::int32_t rows = 0;
    for (const BatchSlice& slice : batch.slices) {
      if (Status status = CheckSlice(slice, offset); !status.ok()) return status;
      offset += slice.token_count;
      rows += slice.logits_rows;
    }
    if (offset != static_cast<std::int32_t>(batch.tokens.size())) return Refuse("tokens outside every slice");
    return rows > limits.max_logits_rows ? Refuse("too many rows of logits") : Status::Ok();
  }

  Status CheckSlice(const BatchSlice& slice, std::int32_t expected_offset) const {
    const RunnerLimits& limits = options_.limits;
    if (slice.token_count < 1 || slice.token_offset != expected_offset)
      return Refuse("slices do not follow each other");
    if (slice.logits_rows < 0 || slice.logits_rows > slice.token_count)
      return Refuse("bad number of rows of logits");
    if (slice.position < 0 || slice.position + slice.token_count > limits.context_length) {
      return Refuse("position outside the context");
    }
    const std::int32_t last_block = (slice.position + slice.token_count - 1) / limits.block_tokens;
    if (static_cast<std::size_t>(last_block) >= slice.block_table.size())
      return Refuse("block table too short");
    for (const BlockId block : slice.block_table) {
      if (block < 0 || block >= limits.kv_blocks) return Refuse("block outside the pool");
    }
    return Status::Ok();
  }

  static Status Refuse(const std::string& what) { return Status::InvalidArgument("fake runner: " + what); }

  CachedToken& Slot(const BatchSlice& slice, std::int32_t position) {
    const std::int32_t block_tokens = options_.limits.block_tokens;
    const BlockId block = slice.block_table[static_cast<std::size_t>(position / block_tokens)];
    return pool_[static_cast<std::size_t>(block) * static_cast<std::size_t>(block_tokens) +
                 static_cast<std::size_t>(position % block_tokens)];
  }

  void Write(const StepBatch& batch, const BatchSlice& slice) {
    for (std::int32_t i = 0; i < slice.token_count; ++i) {
      const TokenId token = batch.tokens[static_cast<std::size_t>(slice.token_offset + i)];
      Slot(slice, slice.position + i) = {token, slice.position + i};
    }
  }

  Status Stop(const StepBatch& batch) {
    for (const BatchSlice& slice : batch.slices) {
      for (std::int32_t i = 0; i < slice.token_count; ++i) Slot(slice, slice.position + i) = {};
    }
    return Status(StatusCode::kAborted, "the step was interrupted");
  }

  // "Attention": everything before `end`, as the pool has it.
  std::uint64_t Chain(const BatchSlice& slice, std::int32_t end) {
    std::uint64_t chain = 0;
    for (std::int32_t position = 0; position < end; ++position) chain = Extend(chain, Slot(slice, position));
    return chain;
  }

  FakeRunnerOptions options_;
  std::vector<CachedToken> pool_;
  std::vector<float> logits_;
  Crew crew_;
};

}  // namespace

std::unique_ptr<ModelRunner> CreateFakeRunner(FakeRunnerOptions options) {
  return std::make_unique<FakeRunner>(std::move(options));
}

TokenId FakeNextToken(std::span<const TokenId> tokens, std::int32_t vocabulary) {
  std::uint64_t chain = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    chain = Extend(chain, {tokens[i], static_cast<std::int32_t>(i)});
  }
  return FirstToken(chain, vocabulary);
}

}  // namespace skipjack
