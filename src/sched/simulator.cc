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
  if (plan.slices.empty()) return {};
  double seconds = step_seconds;
  for (const Slice& slice : plan.slices) {
    const double count = slice.token_count;
    const double position = slice.position;
    seconds += slice_seconds + token_seconds * count +
               attention_seconds * (count * position + count * (count + 1) / 2) +
               context_seconds * (position + count);
  }
  return FromSeconds(seconds);
}

Duration StepCostModel::CopiesBefore(const StepPlan& plan) const {
  return FromSeconds(copy_seconds * static_cast<double>(plan.copies_before.size()));
}

Duration StepCostModel::CopiesBeside(const StepPlan& plan, std::int32_t device_blocks) const {
  const auto out = std::ranges::count_if(plan.copies_beside,
                                         [&](const BlockCopy& copy) { return copy.from < device_blocks; });
  const auto in = std::ssize(plan.copies_beside) - out;
  return FromSeconds(copy_seconds * static_cast<double>(std::max(out, in)));
}

double StepCostModel::RestoreSeconds(std::int32_t count, std::int32_t position) const {
  const double n = count;
  return n * token_seconds + attention_seconds * (n * position + n * (n + 1) / 2);
}

Duration StepCostModel::AloneTime(std::int32_t prompt_tokens, std::int32_t output_tokens,
                                  std::int32_t max_batch_tokens) const {
  const double p = prompt_tokens;
  const double decodes = output_tokens - 1;  // the first token comes with the prompt
  const double chunks = (prompt_tokens + max_batch_tokens - 1) / max_batch_tokens;
  double seconds = (chunks + decodes) * (step_seconds + slice_seconds) + token_seconds * (p + decodes);
  const double decoded_positions = decodes * p + decodes * (decodes + 1) / 2;
  seconds += attention_seconds * (p * (p + 1) / 2 + decoded_positions) + context_seconds * decoded_positions;
  for (double end = max_batch_tokens; end < p; end += max_batch_tokens) seconds += context_seconds * end;
  return FromSeconds(seconds + context_seconds * p);
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
    BookStart(start);
    BookRestored();
    const SimulatedStep step{start, start + TimeOf(), static_cast<std::int32_t>(live_.size()), &plan_};
    clock_.Advance(step.end - step.start);
    BookStep();
    report_.busy += step.end - step.start;
    if (observer_) observer_(step);
  }
  report_.end = clock_.Now();
  return std::move(report_);
}

void Simulator::BookStart(TimePoint start) {
  step_.clear();
  for (const Slice& slice : plan_.slices) {
    Live& live = live_.at(slice.sequence);
    if (!std::exchange(live.scheduled, true)) live.outcome->first_scheduled = start;
    step_.push_back(&live);
  }
}

void Simulator::BookRestored() {
  double restoring = 0;
  for (std::size_t i = 0; i < plan_.slices.size(); ++i) {
    const Slice& slice = plan_.slices[i];
    Live& live = *step_[i];
    // The last token of a sampling slice is computed anyhow.
    const std::int32_t most = slice.token_count - (slice.sample ? 1 : 0);
    const std::int32_t restored = std::clamp(live.most_computed - slice.position, 0, most);
    live.most_computed = std::max(live.most_computed, slice.position + slice.token_count);
    report_.restored_tokens += static_cast<std::uint64_t>(restored);
    restoring += cost_.RestoreSeconds(restored, slice.position);
  }
  report_.restoring += FromSeconds(restoring);
}

Duration Simulator::TimeOf() {
  const Duration computing = cost_.Cost(plan_);
  const Duration before = cost_.CopiesBefore(plan_);
  const Duration time = before + std::max(computing, cost_.CopiesBeside(plan_, device_blocks_));
  report_.copied_blocks += plan_.copies_before.size() + plan_.copies_beside.size();
  report_.waiting += time - computing;
  return time;
}

void Simulator::BookStep() {
  ++report_.steps;
  report_.computed_tokens += plan_.tokens.size();
  result_.step = plan_.step;
  result_.outcomes.clear();
  result_.host_copy_seconds =
      cost_.copy_seconds * static_cast<double>(plan_.copies_before.size() + plan_.copies_beside.size());
  for (std::size_t i = 0; i < plan_.slices.size(); ++i) {
    const Slice& slice = plan_.slices[i];
    if (!slice.sample) continue;
    const Live& live = *step_[i];
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
  for (std::size_t i = 0; i < plan_.slices.size(); ++i) {
    if (plan_.slices[i].sample) BookToken(plan_.slices[i].sequence, step_[i]);
  }
  if (!held_.empty() && scheduler_.Stats().running == 0) {
    for (SimulatedOutcome* outcome : held_) outcome->finish = clock_.Now();
    held_.clear();
  }
}

void Simulator::BookToken(SequenceId sequence, Live* live) {
  const TimePoint now = clock_.Now();
  SimulatedOutcome& outcome = *live->outcome;
  if (outcome.generated_tokens++ == 0) {
    outcome.first_token = now;
  } else {
    outcome.largest_gap = std::max(outcome.largest_gap, now - live->last_token);
  }
  live->last_token = now;
  if (outcome.generated_tokens < live->request->output_tokens) return;
  outcome.finish = now;
  if (together_) held_.push_back(&outcome);
  live_.erase(sequence);
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
