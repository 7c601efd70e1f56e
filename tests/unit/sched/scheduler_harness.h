// Drives a StepScheduler the way the engine does, with a simulated KV memory in place of a model.
//
// For every slot of every block the memory records which chain of tokens (salt included) was written there,
// under its own hash. Before a step, each slice's whole context is read back and must be exactly the
// sequence's own chain; then the slice's tokens are written. A stale, foreign, evicted or not yet computed
// block is thus found at its first use. Copies between tiers are made in this memory as well: those before a
// step when it is planned, those beside it when it ends.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "sched/fcfs_policy.h"
#include "sched/step_scheduler.h"

namespace skipjack::testing {

// What the harness knows of a sequence, independent of the scheduler.
struct KnownSequence {
  std::string salt;
  PriorityClass priority = PriorityClass::kInteractive;
  TimePoint arrival;
  std::uint64_t ticket = 0;
  std::int32_t prompt_tokens = 0;
  std::int32_t max_tokens = 0;
  std::vector<TokenId> tokens;
  bool ended = false;
};

struct SubmitOptions {
  std::string salt = {};
  PriorityClass priority = PriorityClass::kInteractive;
  std::int64_t arrival = 0;  // nanoseconds
  std::string tenant = {};
  std::optional<TimePoint> deadline = {};
};

class SchedulerHarness {
 public:
  // Without a policy, the one that the configuration names.
  explicit SchedulerHarness(const SchedulerConfig& config, std::unique_ptr<Policy> policy = nullptr);

  // How long each step takes, and each of its tokens on top; a microsecond and nothing at first.
  void SetStepTime(Duration step, Duration token = {}) {
    step_time_ = step;
    token_time_ = token;
  }
  // One in `n` copies from or to disk fails, leaving rubbish. 0: none.
  void FailCopies(int n) { failing_copies_ = n; }
  int failed_copies() const { return failed_copies_; }
  TimePoint now() const { return now_; }
  StepScheduler& scheduler() { return *scheduler_; }
  const SchedulerConfig& config() const { return config_; }

  Status Submit(SequenceId id, std::vector<TokenId> prompt, std::int32_t max_tokens,
                SubmitOptions options = {});
  void Cancel(SequenceId id);

  // Plans, and checks the plan against everything known. The plan is then in flight.
  const StepPlan& Plan();
  // Ends the plan in flight. By default each sampling slice gets its token and nothing ends early; `edit` may
  // change the outcomes.
  void Complete(const std::function<void(std::vector<SliceOutcome>*)>& edit = nullptr);
  // The step in flight fails after having written some of its KV and rubbish elsewhere in its slots.
  void Fail(std::uint64_t seed = 1);
  // The same, but the step was interrupted, and has taken its time.
  void Drop(std::uint64_t seed = 1);
  // Plan and Complete; false when there was nothing to do.
  bool Step(const std::function<void(std::vector<SliceOutcome>*)>& edit = nullptr);
  // Steps until nothing is left; the number of steps. Fails the test beyond `limit`.
  int Drain(int limit = 100000);

  const StepPlan& plan() const { return plan_; }
  const KnownSequence& Known(SequenceId id) const { return known_.at(id); }
  const std::map<SequenceId, KnownSequence>& known() const { return known_; }
  std::vector<SequenceId> Live() const;
  // Continuation of a sequence as sampled so far.
  std::vector<TokenId> Generated(SequenceId id) const;
  // The slice of the current plan, if it has one.
  const Slice* SliceOf(SequenceId id) const;
  void CheckInvariants();

 private:
  using Chain = std::uint64_t;  // 0: nothing valid

  std::vector<Chain> ChainsOf(const KnownSequence& sequence) const;
  Chain& Slot(const Slice& slice, std::int32_t position);
  void CheckShape(const Slice& slice, std::int32_t token_offset, std::int32_t table_offset);
  void CheckContext(const Slice& slice);
  void CheckWrites();
  void CheckCopies();
  void Write();
  void WriteRubbish(std::uint64_t seed);
  void Copy(const BlockCopy& copy, std::vector<BlockId>* failed);
  std::vector<BlockId> CopyBeside();

  const SchedulerConfig config_;
  std::unique_ptr<StepScheduler> scheduler_;
  std::map<SequenceId, KnownSequence> known_;
  std::vector<Chain> memory_;  // [blocks of all tiers, block_tokens]
  std::vector<BlockId> failed_before_;
  int failing_copies_ = 0;
  int failed_copies_ = 0;
  std::mt19937_64 random_{7};
  StepPlan plan_;
  TimePoint now_;
  Duration step_time_{1000};
  Duration token_time_{};
};

// `count` tokens from `first` on, each one more than the one before.
std::vector<TokenId> Range(TokenId first, std::int32_t count);

}  // namespace skipjack::testing
