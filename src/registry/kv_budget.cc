#include "registry/kv_budget.h"

#include <fmt/format.h>

#include <algorithm>

namespace skipjack {
namespace {

// The blocks of all tiers are numbered with 32 bits.
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 29;
constexpr std::int64_t kShareOfMachine = 4;  // one in four bytes at most, unless configured

std::int64_t DivideUp(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

Result<std::int32_t> ChooseContext(const ModelEntry& entry, std::int32_t model_context) {
  if (entry.context_length <= 0) return model_context;
  if (entry.context_length <= model_context) return entry.context_length;
  return Status::InvalidArgument(fmt::format("context_length is {}, but the model was trained for {}",
                                             entry.context_length, model_context));
}

}  // namespace

Result<KvBudget> PlanKvBudget(const ModelEntry& entry, const KvBudgetInput& input) {
  const Result<std::int32_t> context = ChooseContext(entry, input.model_context);
  if (!context.ok()) return context.status();
  const std::int64_t block_tokens = entry.kv.block_tokens;
  const std::int64_t blocks_per_context = DivideUp(*context, block_tokens);
  const std::int64_t wanted = blocks_per_context * entry.scheduler.max_sequences;
  const std::int64_t bytes =
      entry.kv.device_memory > 0 ? entry.kv.device_memory : input.machine_bytes / kShareOfMachine;
  // Memory that no set of sequences could use is not taken, except where it was asked for: it holds prefixes.
  std::int64_t blocks = bytes / input.block_bytes;
  if (entry.kv.device_memory <= 0) blocks = std::min(blocks, wanted);
  blocks = std::min(blocks, kMostBlocks);

  const auto lower_tier = [&](std::int64_t size) {
    return static_cast<std::int32_t>(std::min(size / input.block_bytes, kMostBlocks));
  };
  KvBudget budget{*context, static_cast<std::int32_t>(blocks), lower_tier(entry.kv.host_memory),
                  lower_tier(entry.kv.disk_size)};
  if (blocks >= blocks_per_context) return budget;
  if (blocks < 1 || entry.context_length > 0) {
    return Status::InvalidArgument(fmt::format(
        "a context of {} tokens needs {} KV blocks of {} bytes ({} bytes), but {} bytes hold only {}: "
        "raise kv.device_memory or lower context_length",
        *context, blocks_per_context, input.block_bytes, blocks_per_context * input.block_bytes, bytes,
        blocks));
  }
  budget.context_length = static_cast<std::int32_t>(blocks * block_tokens);
  return budget;
}

}  // namespace skipjack
