// Every policy over random work: nobody is lost, nothing leaks, classes are respected, and nobody is pushed
// aside but by somebody who is strictly ahead.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/sched/scheduler_harness.h"

namespace skipjack {
namespace {

using testing::Range;
using testing::SchedulerHarness;

struct Coverage {
  std::uint64_t order_preemptions = 0;
  std::uint64_t growth_preemptions = 0;
  std::uint64_t promotions = 0;
  int ended = 0;
  int late = 0;
  int promotions_due = 0;
};

class PolicyRun {
 public:
  PolicyRun(const std::string& policy, std::uint64_t seed, Coverage* coverage)
      : random_(seed), coverage_(*coverage), config_(RandomConfig(policy)), harness_(config_) {}

  void Run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      harness_.SetStepTime(Duration(200 + static_cast<std::int64_t>(random_() % 3000)));
      if (OneIn(3)) Submit();
      if (OneIn(25)) CancelSome();
      Step();
    }
    for (int i = 0; i < 20000 && !::testing::Test::HasFailure(); ++i) {
      if (!Step()) break;
    }
    EXPECT_TRUE(harness_.Live().empty()) << harness_.scheduler().DebugString();
    const SchedulerStats stats = harness_.scheduler().Stats();
    EXPECT_EQ(stats.blocks_used, 0);
    EXPECT_EQ(stats.waiting + stats.running, 0);
    EXPECT_EQ(stats.blocks_free + stats.blocks_cached, config_.kv_blocks);
    coverage_.promotions += stats.promotions;
  }

 private:
  int Below(int bound) { return static_cast<int>(random_() % static_cast<std::uint64_t>(bound)); }
  bool OneIn(int n) { return Below(n) == 0; }

  SchedulerConfig RandomConfig(const std::string& policy) {
    SchedulerConfig config;
    config.policy = policy;
    config.max_sequences = 1 + Below(6);
    config.max_batch_tokens = config.max_sequences + Below(40);
    config.max_queued = 1000;
    config.block_tokens = 1 + Below(5);
    config.kv_blocks = 25 + Below(60);
    config.context_length = 80;
    config.prefix_cache = !OneIn(4);
    config.tenant_fairness = OneIn(2);
    config.max_lost_part = OneIn(2) ? 1 : 0.5;
    config.settings.starvation_bound = Duration(OneIn(4) ? 0 : 20'000 + Below(200'000));
    config.settings.ageing_bound = Duration(OneIn(4) ? 0 : 50'000 + Below(300'000));
    config.settings.hysteresis = Below(3) / 2.0;
    if (OneIn(3)) config.token_gap_target = Duration(1000 + Below(5000));
    config.future_admission = OneIn(3);
    if (OneIn(2)) return config;
    config.host_blocks = Below(2 * config.kv_blocks);
    config.disk_blocks = OneIn(2) ? 0 : Below(config.kv_blocks);
    config.swap = OneIn(3) ? SwapMode::kReactive : SwapMode::kProactive;
    return config;
  }

  void Submit() {
    const auto id = static_cast<SequenceId>(next_id_++);
    const int prompt = 1 + Below(OneIn(5) ? 60 : 12);
    const int room = std::min(80, config_.kv_blocks * config_.block_tokens) - prompt;
    if (room < 1) return;
    const std::int64_t now = harness_.now().time_since_epoch().count();
    std::optional<TimePoint> deadline;
    if (OneIn(6)) deadline = harness_.now() + Duration(Below(60'000));
    const Status status = harness_.Submit(id, Range(OneIn(3) ? 5 : static_cast<TokenId>(100 * id), prompt),
                                          1 + Below(OneIn(4) ? room : std::min(room, 9)),
                                          {.priority = static_cast<PriorityClass>(OneIn(5) ? Below(3) : 1),
                                           .arrival = now,
                                           .tenant = "t" + std::to_string(Below(3)),
                                           .deadline = deadline});
    EXPECT_TRUE(status.ok()) << status.ToString();
  }

  void CancelSome() {
    const std::vector<SequenceId> live = harness_.Live();
    if (!live.empty()) harness_.Cancel(live[random_() % live.size()]);
    harness_.CheckInvariants();
  }

  bool IsWaiting(SequenceId id) {
    const auto state = harness_.scheduler().Find(id);
    return state.has_value() && state->phase == SequenceState::Phase::kWaiting;
  }

  bool Step() {
    std::map<SequenceId, Rank> running;
    std::map<SequenceId, Rank> waiting;
    for (const SequenceId id : harness_.Live()) {
      (IsWaiting(id) ? waiting : running).emplace(id, *harness_.scheduler().FindRank(id));
    }
    const StepPlan& plan = harness_.Plan();
    if (::testing::Test::HasFailure()) return false;
    if (plan.empty()) {
      EXPECT_TRUE(harness_.Live().empty()) << "work waits and nothing is planned\n"
                                           << harness_.scheduler().DebugString();
      return false;
    }
    CheckPreemptions(plan, waiting);
    CheckClasses(plan);
    CheckPromotions();
    harness_.Complete([&](std::vector<SliceOutcome>* outcomes) {
      for (SliceOutcome& outcome : *outcomes) outcome.finished = OneIn(15);
    });
    coverage_.ended += static_cast<int>(waiting.size() + running.size() - harness_.Live().size());
    return true;
  }

  // A victim is behind everybody who runs on and everybody who came in, and whoever came in for it is
  // strictly ahead: by class, by deadline or by level. Were it only equal, the victim could come back the
  // same way.
  void CheckPreemptions(const StepPlan& plan, const std::map<SequenceId, Rank>& waited) {
    std::vector<SequenceId> admitted;
    for (const auto& [id, rank] : waited) {
      if (harness_.scheduler().Find(id).has_value() && !IsWaiting(id)) admitted.push_back(id);
    }
    // Or room is being made for who comes in next.
    if (!plan.copies_beside.empty()) {
      const std::vector<SequenceId> live = harness_.Live();
      const auto first = std::ranges::min_element(live, {}, [&](SequenceId id) {
        return std::pair(!IsWaiting(id), *harness_.scheduler().FindRank(id));
      });
      if (first != live.end()) admitted.push_back(*first);
    }
    for (const Preemption& preemption : plan.preempted) {
      const Rank victim = *harness_.scheduler().FindRank(preemption.sequence);
      for (const SequenceId id : harness_.Live()) {
        if (IsWaiting(id)) continue;
        EXPECT_LT(*harness_.scheduler().FindRank(id), victim) << plan.ToString();
      }
      bool strictly = false;
      for (const SequenceId id : admitted) {
        const Rank winner = *harness_.scheduler().FindRank(id);
        strictly |= winner.priority < victim.priority ||
                    (winner.priority == victim.priority && !winner.late && victim.late) ||
                    (winner.priority == victim.priority && winner.policy.level < victim.policy.level);
      }
      ++(strictly ? coverage_.order_preemptions : coverage_.growth_preemptions);
      if (strictly) continue;
      // Then somebody who runs had to grow: one of those in the plan, or the victim itself.
      const auto at_edge = [&](std::int32_t position) { return position % config_.block_tokens == 0; };
      const bool grew = std::ranges::any_of(plan.preempted, at_edge, &Preemption::tokens_lost) ||
                        std::ranges::any_of(plan.slices, at_edge, &Slice::position);
      EXPECT_TRUE(grew) << plan.ToString() << harness_.scheduler().DebugString();
    }
    if (config_.policy == "orca" || config_.policy == "request") {
      for (const Preemption& preemption : plan.preempted) {
        EXPECT_TRUE(harness_.Known(preemption.sequence).priority > PriorityClass::kRealtime ||
                    harness_.scheduler().FindRank(preemption.sequence)->late)
            << "room for everybody was reserved";
      }
    }
  }

  // Nobody waits for lower classes only, unless its batch is closed or it was just pushed out.
  void CheckClasses(const StepPlan& plan) {
    if (config_.policy == "request" || !plan.preempted.empty()) return;
    if (static_cast<int>(plan.tokens.size()) == config_.max_batch_tokens) return;
    if (harness_.scheduler().kv().swaps()) return;  // perhaps room is being made
    if (config_.token_gap_target > Duration::zero() || config_.policy == "orca" || config_.prefix_cache)
      return;
    PriorityClass best = PriorityClass::kBatch;
    bool anybody = false;
    for (const SequenceId id : harness_.Live()) {
      if (!IsWaiting(id)) continue;
      anybody = true;
      best = std::min(best, harness_.Known(id).priority);
    }
    if (!anybody) return;
    EXPECT_TRUE(std::ranges::any_of(harness_.Live(), [&](SequenceId id) {
      return !IsWaiting(id) && harness_.Known(id).priority <= best;
    })) << harness_.scheduler().DebugString();
  }

  // Whoever was not served for the starvation bound is in the first queue when the plan is made, unless a
  // fifth of the seats is held by others like it.
  void CheckPromotions() {
    for (const Slice& slice : harness_.plan().slices) served_[slice.sequence] = harness_.now();
    const std::int32_t promoted = harness_.scheduler().promoted();
    EXPECT_LE(promoted, std::max(1, config_.max_sequences / 5));
    if (config_.policy != "mlfq" || config_.settings.starvation_bound == Duration::zero()) return;
    for (const SequenceId id : harness_.Live()) {
      if (!IsWaiting(id)) continue;
      const auto served = served_.find(id);
      const TimePoint since = served != served_.end() ? served->second : harness_.Known(id).arrival;
      // It ran, without being served, when those who wait were looked at.
      if (std::ranges::count(harness_.plan().preempted, id, &Preemption::sequence) > 0) continue;
      // A step that is under way when the bound passes ends first.
      if (harness_.now() - since < config_.settings.starvation_bound + Duration(3200)) continue;
      if (promoted > 0) continue;
      ++coverage_.promotions_due;
      EXPECT_EQ(harness_.scheduler().FindRank(id)->policy.level, 0) << harness_.scheduler().DebugString();
    }
    for (const SequenceId id : harness_.Live())
      coverage_.late += harness_.scheduler().FindRank(id)->late ? 1 : 0;
  }

  std::mt19937_64 random_;
  Coverage& coverage_;
  const SchedulerConfig config_;
  SchedulerHarness harness_;
  std::map<SequenceId, TimePoint> served_;
  int next_id_ = 1;
};

class PolicyProperty : public ::testing::TestWithParam<const char*> {};

TEST_P(PolicyProperty, RandomWorkKeepsAllPromises) {
  Coverage coverage;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PolicyRun(GetParam(), seed, &coverage).Run(300);
    if (HasFailure()) return;
  }
  EXPECT_GT(coverage.ended, 2000);
  const std::string policy = GetParam();
  if (policy == "mlfq" || policy == "index") {
    EXPECT_GT(coverage.order_preemptions, 100u);
    EXPECT_GT(coverage.growth_preemptions, 8u);
    EXPECT_GT(coverage.promotions, 20u);
  }
  if (policy == "mlfq") {
    EXPECT_GT(coverage.late, 20);
    EXPECT_GT(coverage.promotions_due, 20);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PolicyProperty, ::testing::Values("request", "orca", "fcfs", "mlfq", "index"),
                         [](const auto& named) { return std::string(named.param); });

}  // namespace
}  // namespace skipjack
