#include "engine/preemption_log.h"

#include <chrono>

namespace skipjack {
namespace {

constexpr Duration kBetweenLines = std::chrono::seconds(10);

}  // namespace

void PreemptionLog::Add(std::int32_t tokens_lost) {
  ++sequences_;
  tokens_ += tokens_lost;
}

std::optional<std::string> PreemptionLog::TakeLine(TimePoint now) {
  if (sequences_ == 0 || (last_line_ && now - *last_line_ < kBetweenLines)) return std::nullopt;
  std::string line = "KV blocks ran out: " + std::to_string(sequences_) + " times a sequence lost its KV";
  if (last_line_)
    line += " in the last " + std::to_string(static_cast<int>(ToSeconds(now - *last_line_))) + " s";
  line += " and " + std::to_string(tokens_) +
          " tokens are computed again; raise kv.device_memory, or lower scheduler.max_sequences";
  last_line_ = now;
  sequences_ = 0;
  tokens_ = 0;
  return line;
}

}  // namespace skipjack
