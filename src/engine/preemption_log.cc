#include "engine/preemption_log.h"

#include <chrono>
#include <cstddef>
#include <numeric>
#include <string_view>

namespace skipjack {
namespace {

constexpr Duration kBetweenLines = std::chrono::seconds(10);

// In the order of PreemptionCause.
constexpr std::array<std::string_view, kPreemptionCauses> kWhy = {
    "for a higher priority class", "for others that can still meet their deadlines",
    "for others that go first by the policy", "because KV blocks ran out",
    "because it could not be read back"};

}  // namespace

void PreemptionLog::Add(const Preemption& preemption) {
  ++sequences_[static_cast<std::size_t>(preemption.cause)];
  tokens_ += preemption.tokens_lost;
}

std::optional<std::string> PreemptionLog::TakeLine(TimePoint now) {
  const std::int64_t all = std::accumulate(sequences_.begin(), sequences_.end(), std::int64_t{0});
  if (all == 0 || (last_line_ && now - *last_line_ < kBetweenLines)) return std::nullopt;
  std::string line = std::to_string(all) + " times a sequence lost its KV";
  if (last_line_)
    line += " in the last " + std::to_string(static_cast<int>(ToSeconds(now - *last_line_))) + " s";
  line += " and " + std::to_string(tokens_) + " tokens of it:";
  const char* separator = " ";
  for (std::size_t cause = 0; cause < kPreemptionCauses; ++cause) {
    if (sequences_[cause] == 0) continue;
    line += separator + std::to_string(sequences_[cause]) + ' ' + std::string(kWhy[cause]);
    separator = ", ";
  }
  if (sequences_[static_cast<std::size_t>(PreemptionCause::kGrowth)] > 0) {
    line += "; for those raise kv.device_memory, or lower scheduler.max_sequences";
  }
  last_line_ = now;
  sequences_ = {};
  tokens_ = 0;
  return line;
}

}  // namespace skipjack
