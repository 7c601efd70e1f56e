#include "tests/unit/sched/scheduler_harness.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace skipjack::testing {
namespace {

// SplitMix64; never 0.
std::uint64_t Mix(std::uint64_t state, std::uint64_t value) {
  std::uint64_t z = state + 0x9e3779b97f4a7c15 * (value + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return (z ^ (z >> 31)) | 1;
}

constexpr std::uint64_t kVocabulary = 3;  // small, so that continuations meet again

std::unique_ptr<StepScheduler> MakeScheduler(const SchedulerConfig& config, std::unique_ptr<Policy> policy) {
  auto learnt = std::make_unique<Learnt>();
  if (policy == nullptr) policy = std::move(*MakePolicy(config.policy, config.settings, *learnt));
  return std::make_unique<StepScheduler>(config, std::move(policy), std::move(learnt));
}

}  // namespace

std::vector<TokenId> Range(TokenId first, std::int32_t count) {
  std::vector<TokenId> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

SchedulerHarness::SchedulerHarness(const SchedulerConfig& config, std::unique_ptr<Policy> policy)
    : config_(config),
      scheduler_(MakeScheduler(config, std::move(policy))),
      memory_(
          static_cast<std::size_t>(config.tiers().total()) * static_cast<std::size_t>(config.block_tokens),
          0) {}

Status SchedulerHarness::Submit(SequenceId id, std::vector<TokenId> prompt, std::int32_t max_tokens,
                                SubmitOptions options) {
  SubmitRequest request;
  request.sequence = id;
  request.prompt = prompt;
  request.max_tokens = max_tokens;
  request.cache_salt = options.salt;
  request.tenant = options.tenant;
  request.priority = options.priority;
  request.deadline = options.deadline;
  request.arrival = TimePoint(Duration(options.arrival));
  Status status = scheduler_->Submit(std::move(request));
  if (status.ok()) {
    KnownSequence& known = known_[id];
    known.salt = options.salt;
    known.priority = options.priority;
    known.arrival = TimePoint(Duration(options.arrival));
    known.ticket = known_.size();
    known.prompt_tokens = static_cast<std::int32_t>(prompt.size());
    known.max_tokens = max_tokens;
    known.tokens = std::move(prompt);
  }
  return status;
}

void SchedulerHarness::Cancel(SequenceId id) {
  scheduler_->Cancel(id);
  if (const auto found = known_.find(id); found != known_.end()) found->second.ended = true;
  EXPECT_FALSE(scheduler_->Find(id).has_value());
}

std::vector<SchedulerHarness::Chain> SchedulerHarness::ChainsOf(const KnownSequence& sequence) const {
  Chain chain = 1;
  for (const char c : sequence.salt) chain = Mix(chain, static_cast<unsigned char>(c));
  std::vector<Chain> chains;
  for (const TokenId token : sequence.tokens) {
    chain = Mix(chain, static_cast<std::uint64_t>(token));
    chains.push_back(chain);
  }
  return chains;
}

SchedulerHarness::Chain& SchedulerHarness::Slot(const Slice& slice, std::int32_t position) {
  const BlockId block =
      plan_.block_tables[static_cast<std::size_t>(slice.table_offset + position / config_.block_tokens)];
  return memory_[static_cast<std::size_t>(block) * static_cast<std::size_t>(config_.block_tokens) +
                 static_cast<std::size_t>(position % config_.block_tokens)];
}

void SchedulerHarness::CheckShape(const Slice& slice, std::int32_t token_offset, std::int32_t table_offset) {
  ASSERT_TRUE(known_.contains(slice.sequence));
  const KnownSequence& known = known_.at(slice.sequence);
  ASSERT_FALSE(known.ended) << "sequence " << slice.sequence << " is gone but planned";
  ASSERT_EQ(slice.token_offset, token_offset);
  ASSERT_EQ(slice.table_offset, table_offset);
  ASSERT_GE(slice.position, 0);
  ASSERT_GE(slice.token_count, 1);
  const std::int32_t end = slice.position + slice.token_count;
  ASSERT_LE(end, static_cast<std::int32_t>(known.tokens.size()));
  ASSERT_EQ(slice.sample, end == static_cast<std::int32_t>(known.tokens.size()));
  ASSERT_EQ(slice.table_count, (end + config_.block_tokens - 1) / config_.block_tokens);
  for (std::int32_t i = 0; i < slice.token_count; ++i) {
    ASSERT_EQ(plan_.tokens[static_cast<std::size_t>(token_offset + i)],
              known.tokens[static_cast<std::size_t>(slice.position + i)]);
  }
  std::set<BlockId> blocks;
  for (std::int32_t i = 0; i < slice.table_count; ++i) {
    const BlockId block = plan_.block_tables[static_cast<std::size_t>(table_offset + i)];
    ASSERT_GE(block, 0);
    ASSERT_LT(block, config_.kv_blocks);
    ASSERT_TRUE(blocks.insert(block).second) << "block " << block << " is in one table twice";
  }
}

void SchedulerHarness::CheckContext(const Slice& slice) {
  const std::vector<Chain> chains = ChainsOf(known_.at(slice.sequence));
  for (std::int32_t position = 0; position < slice.position; ++position) {
    ASSERT_EQ(Slot(slice, position), chains[static_cast<std::size_t>(position)])
        << "sequence " << slice.sequence << " would attend to wrong KV at position " << position << "\n"
        << plan_.ToString() << scheduler_->DebugString();
  }
}

// A block that is written is in one table only.
void SchedulerHarness::CheckWrites() {
  std::map<BlockId, int> tables;
  for (const BlockId block : plan_.block_tables) ++tables[block];
  for (const Slice& slice : plan_.slices) {
    for (std::int32_t i = slice.position / config_.block_tokens; i < slice.table_count; ++i) {
      ASSERT_EQ(tables[plan_.block_tables[static_cast<std::size_t>(slice.table_offset + i)]], 1);
    }
  }
}

void SchedulerHarness::Copy(const BlockCopy& copy, std::vector<BlockId>* failed) {
  const TierSizes tiers = config_.tiers();
  const auto size = static_cast<std::ptrdiff_t>(config_.block_tokens);
  const bool disk = tiers.Of(copy.from) == Tier::kDisk || tiers.Of(copy.to) == Tier::kDisk;
  std::copy_n(memory_.begin() + copy.from * size, size, memory_.begin() + copy.to * size);
  if (!disk || failing_copies_ == 0 || random_() % static_cast<std::uint64_t>(failing_copies_) != 0) return;
  memory_[static_cast<std::size_t>(copy.to * size)] = 0;
  failed->push_back(copy.to);
  ++failed_copies_;
}

std::vector<BlockId> SchedulerHarness::CopyBeside() {
  std::vector<BlockId> failed = std::exchange(failed_before_, {});
  for (const BlockCopy& copy : plan_.copies_beside) Copy(copy, &failed);
  return failed;
}

// Copies stay within the tiers, do not write what another one writes, and those beside the step leave alone
// what it touches.
void SchedulerHarness::CheckCopies() {
  const TierSizes tiers = config_.tiers();
  std::set<BlockId> written;
  for (const Slice& slice : plan_.slices) {
    for (std::int32_t i = slice.position / config_.block_tokens; i < slice.table_count; ++i) {
      written.insert(plan_.block_tables[static_cast<std::size_t>(slice.table_offset + i)]);
    }
  }
  const std::set<BlockId> touched(plan_.block_tables.begin(), plan_.block_tables.end());
  std::set<BlockId> targets;
  for (const auto* copies : {&plan_.copies_before, &plan_.copies_beside}) {
    for (const BlockCopy& copy : *copies) {
      ASSERT_GE(std::min(copy.from, copy.to), 0);
      ASSERT_LT(std::max(copy.from, copy.to), tiers.total());
      ASSERT_NE(tiers.Of(copy.from), tiers.Of(copy.to));
      ASSERT_TRUE(targets.insert(copy.to).second) << "block " << copy.to << " is written twice";
    }
  }
  for (const BlockCopy& copy : plan_.copies_beside) {
    ASSERT_FALSE(touched.contains(copy.to)) << plan_.ToString();
    ASSERT_FALSE(written.contains(copy.from)) << plan_.ToString();
  }
}

const StepPlan& SchedulerHarness::Plan() {
  scheduler_->Plan(now_, &plan_);
  CheckCopies();
  for (const BlockCopy& copy : plan_.copies_before) Copy(copy, &failed_before_);
  EXPECT_LE(plan_.slices.size(), static_cast<std::size_t>(config_.max_sequences));
  EXPECT_LE(plan_.tokens.size(), static_cast<std::size_t>(config_.max_batch_tokens));
  std::set<SequenceId> seen;
  std::int32_t token_offset = 0;
  std::int32_t table_offset = 0;
  for (const Slice& slice : plan_.slices) {
    EXPECT_TRUE(seen.insert(slice.sequence).second);
    CheckShape(slice, token_offset, table_offset);
    if (::testing::Test::HasFatalFailure()) return plan_;
    CheckContext(slice);
    token_offset += slice.token_count;
    table_offset += slice.table_count;
  }
  EXPECT_EQ(plan_.tokens.size(), static_cast<std::size_t>(token_offset));
  EXPECT_EQ(plan_.block_tables.size(), static_cast<std::size_t>(table_offset));
  for (const Preemption& preemption : plan_.preempted) {
    // Who lost its KV to a failed copy may come back at once.
    if (failed_copies_ > 0) continue;
    EXPECT_FALSE(seen.contains(preemption.sequence)) << "preempted and planned\n"
                                                     << plan_.ToString() << scheduler_->DebugString();
  }
  CheckWrites();
  CheckInvariants();
  return plan_;
}

void SchedulerHarness::Write() {
  for (const Slice& slice : plan_.slices) {
    const std::vector<Chain> chains = ChainsOf(known_.at(slice.sequence));
    for (std::int32_t i = 0; i < slice.token_count; ++i) {
      Slot(slice, slice.position + i) = chains[static_cast<std::size_t>(slice.position + i)];
    }
  }
}

void SchedulerHarness::Complete(const std::function<void(std::vector<SliceOutcome>*)>& edit) {
  Write();
  StepResult result{.step = plan_.step, .failed_copies = CopyBeside()};
  for (const Slice& slice : plan_.slices) {
    const KnownSequence& known = known_.at(slice.sequence);
    if (!slice.sample) continue;
    const auto token = static_cast<TokenId>(ChainsOf(known).back() / 2 % kVocabulary);
    result.outcomes.push_back({.sequence = slice.sequence, .token = token});
  }
  if (edit) edit(&result.outcomes);
  now_ += step_time_ + token_time_ * static_cast<std::int64_t>(plan_.tokens.size());
  scheduler_->Complete(result, now_);
  for (const SliceOutcome& outcome : result.outcomes) {
    const auto found = known_.find(outcome.sequence);
    const Slice* slice = SliceOf(outcome.sequence);
    if (found == known_.end() || found->second.ended || slice == nullptr) continue;
    if (slice->sample) found->second.tokens.push_back(outcome.token);
    const auto generated =
        static_cast<std::int32_t>(found->second.tokens.size()) - found->second.prompt_tokens;
    found->second.ended = outcome.finished || generated == found->second.max_tokens;
    EXPECT_EQ(scheduler_->Find(outcome.sequence).has_value(), !found->second.ended);
  }
  CheckInvariants();
}

void SchedulerHarness::WriteRubbish(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (const Slice& slice : plan_.slices) {
    const std::vector<Chain> chains = ChainsOf(known_.at(slice.sequence));
    for (std::int32_t i = 0; i < slice.token_count; ++i) {
      const std::int32_t position = slice.position + i;
      if (random() % 3 == 0) continue;
      Slot(slice, position) = random() % 2 == 0 ? chains[static_cast<std::size_t>(position)] : random() | 1;
    }
  }
}

void SchedulerHarness::Fail(std::uint64_t seed) {
  WriteRubbish(seed);
  scheduler_->Complete({.step = plan_.step, .failed = true, .failed_copies = CopyBeside()}, now_);
  CheckInvariants();
}

void SchedulerHarness::Drop(std::uint64_t seed) {
  WriteRubbish(seed);
  now_ += step_time_;
  scheduler_->Complete({.step = plan_.step, .dropped = true, .failed_copies = CopyBeside()}, now_);
  CheckInvariants();
}

bool SchedulerHarness::Step(const std::function<void(std::vector<SliceOutcome>*)>& edit) {
  if (Plan().empty()) return false;
  Complete(edit);
  return true;
}

int SchedulerHarness::Drain(int limit) {
  for (int steps = 0; steps < limit; ++steps) {
    if (!Step()) {
      EXPECT_TRUE(Live().empty()) << "nothing planned, but:\n" << scheduler_->DebugString();
      return steps;
    }
    if (::testing::Test::HasFailure()) return steps;
  }
  ADD_FAILURE() << "no end after " << limit << " steps\n" << scheduler_->DebugString();
  return limit;
}

std::vector<SequenceId> SchedulerHarness::Live() const {
  std::vector<SequenceId> live;
  for (const auto& [id, sequence] : known_) {
    if (!sequence.ended) live.push_back(id);
  }
  return live;
}

std::vector<TokenId> SchedulerHarness::Generated(SequenceId id) const {
  const KnownSequence& known = known_.at(id);
  return {known.tokens.begin() + known.prompt_tokens, known.tokens.end()};
}

const Slice* SchedulerHarness::SliceOf(SequenceId id) const {
  const auto found = std::ranges::find(plan_.slices, id, &Slice::sequence);
  return found == plan_.slices.end() ? nullptr : &*found;
}

void SchedulerHarness::CheckInvariants() {
  const Status status = scheduler_->CheckInvariants();
  EXPECT_TRUE(status.ok()) << status.ToString() << "\n" << scheduler_->DebugString();
  const SchedulerStats stats = scheduler_->Stats();
  EXPECT_EQ(stats.blocks_used + stats.blocks_cached + stats.blocks_free, stats.blocks_total);
}

}  // namespace skipjack::testing
