#include "sched/scheduler.h"

namespace skipjack {

Status CheckFits(const SchedulerConfig& config, std::int64_t prompt_tokens, std::int64_t max_tokens) {
  if (prompt_tokens < 1) return Status::InvalidArgument("the prompt is empty: at least 1 token is needed");
  if (max_tokens < 1) {
    return Status::InvalidArgument("max_tokens must be at least 1, got " + std::to_string(max_tokens));
  }
  const std::int64_t context = config.context_length;
  if (prompt_tokens > context || max_tokens > context - prompt_tokens) {
    return Status::InvalidArgument("prompt of " + std::to_string(prompt_tokens) + " tokens plus max_tokens " +
                                   std::to_string(max_tokens) + " exceeds the context length of " +
                                   std::to_string(context) + " tokens");
  }
  // The last generated token is never fed back, so its K and V need no slot.
  const std::int64_t slots = prompt_tokens + max_tokens - 1;
  const std::int64_t blocks = (slots + config.block_tokens - 1) / config.block_tokens;
  if (blocks > config.kv_blocks) {
    return Status::InvalidArgument("prompt of " + std::to_string(prompt_tokens) + " tokens plus max_tokens " +
                                   std::to_string(max_tokens) + " needs " + std::to_string(blocks) +
                                   " KV blocks, the pool has " + std::to_string(config.kv_blocks));
  }
  return Status::Ok();
}

}  // namespace skipjack
