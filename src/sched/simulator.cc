#include "sched/simulator.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace skipjack {
namespace {

// Token `index` of text `text`, from SplitMix64: different texts practically never agree on a whole block.
TokenId TokenOf(std::uint64_t text, std::int32_t index) {
  std::uint64_t z = text * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(index) * 0xd1b54a32d192ed03;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<TokenId>((z ^ (z >> 31)) & 0x7fffffff);
}

}  // namespace

Duration StepCostModel::Cost(const StepPlan& plan) const {
  double pairs = 0;
  for (const Slice& slice : plan.slices) {
    const double count = slice.token_count;
    pairs += count * slice.position + count * (count + 1) / 2;
  }
  return FromSeconds(step_seconds + token_seconds * static_cast<double>(plan.tokens.size()) +
                     attention_seconds * pairs);
}

void Simulator::Submit(const SimulatedRequest& request, SimulatedOutcome* outcome) {
  const SequenceId sequence = next_sequence_++;
  SubmitRequest submit;
  submit.sequence = sequence;
  submit.max_tokens = request.max_tokens > 0 ? request.max_tokens : request.output_tokens;
  submit.tenant = request.tenant;
  submit.cache_salt = request.tenant;
  submit.priority = request.priority;
  submit.arrival = request.arrival;
  submit.prompt.reserve(static_cast<std::size_t>(request.prompt_tokens));
  for (std::int32_t i = 0; i < request.prompt_tokens; ++i) {
    // Even texts are shared prefixes, odd ones belong to one request.
    submit.prompt.push_back(TokenOf(i < request.prefix_tokens ? 2 * request.prefix : 2 * sequence + 1, i));
  }
  outcome->refusal = scheduler_.Submit(std::move(submit));
  if (!outcome->refusal.ok()) return;
  live_[sequence].request = &request;
  live_[sequence].outcome = outcome;
}

Result<SimulationReport> Simulator::Run(std::span<const SimulatedRequest> requests) {
  report_ = {};
  report_.outcomes.resize(requests.size());
  std::size_t next = 0;
  while (next < requests.size() || !live_.empty()) {
    for (; next < requests.size() && requests[next].arrival <= clock_.Now(); ++next) {
      Submit(requests[next], &report_.outcomes[next]);
    }
    const TimePoint start = clock_.Now();
    scheduler_.Plan(start, &plan_);
    if (plan_.empty()) {
      if (!live_.empty()) {
        return Status::Internal("the scheduler plans nothing although " + std::to_string(live_.size()) +
                                " requests are left:\n" + scheduler_.DebugString());
      }
      if (next < requests.size()) clock_.Advance(requests[next].arrival - start);
      continue;
    }
    const SimulatedStep step{start, start + cost_.Cost(plan_), static_cast<std::int32_t>(live_.size()),
                             &plan_};
    BookStart(start);
    clock_.Advance(step.end - step.start);
    BookStep();
    report_.busy += step.end - step.start;
    if (observer_) observer_(step);
  }
  report_.end = clock_.Now();
  return std::move(report_);
}

void Simulator::BookStart(TimePoint start) {
  for (const Slice& slice : plan_.slices) {
    Live& live = live_.at(slice.sequence);
    if (!std::exchange(live.scheduled, true)) live.outcome->first_scheduled = start;
  }
}

void Simulator::BookStep() {
  ++report_.steps;
  report_.computed_tokens += plan_.tokens.size();
  result_.step = plan_.step;
  result_.outcomes.clear();
  for (const Slice& slice : plan_.slices) {
    if (!slice.sample) continue;
    const Live& live = live_.at(slice.sequence);
    const std::int32_t index = live.outcome->generated_tokens;
    const bool last = index + 1 == live.request->output_tokens;
    if (last) {
      const SequenceState state = scheduler_.Find(slice.sequence).value_or(SequenceState{});
      live.outcome->cached_tokens = state.cached_tokens;
      live.outcome->preemptions = state.preemptions;
    }
    const TokenId token = TokenOf(2 * slice.sequence + 1, live.request->prompt_tokens + index);
    result_.outcomes.push_back({.sequence = slice.sequence, .token = token, .finished = last});
  }
  scheduler_.Complete(result_, clock_.Now());
  for (const SliceOutcome& outcome : result_.outcomes) BookToken(outcome.sequence);
}

void Simulator::BookToken(SequenceId sequence) {
  const auto found = live_.find(sequence);
  Live& live = found->second;
  const TimePoint now = clock_.Now();
  if (live.outcome->generated_tokens++ == 0) {
    live.outcome->first_token = now;
  } else {
    live.outcome->largest_gap = std::max(live.outcome->largest_gap, now - live.last_token);
  }
  live.last_token = now;
  if (live.outcome->generated_tokens < live.request->output_tokens) return;
  live.outcome->finish = now;
  live_.erase(found);
}

std::vector<TimePoint> PoissonArrivals(double per_second, std::int32_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<TimePoint> arrivals;
  arrivals.reserve(static_cast<std::size_t>(count));
  double seconds = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    // The inverse of the exponential distribution at a point of (0, 1], written out because the standard
    // library's distributions differ between implementations.
    const double uniform = (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
    seconds -= std::log(uniform) / per_second;
    arrivals.push_back(TimePoint(FromSeconds(seconds)));
  }
  return arrivals;
}

}  // namespace skipjack
