// Runs a loaded model over one step's tokens. The engine's step thread is the only caller.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/step_interrupt.h"
#include "base/block_copy.h"
#include "base/status.h"
#include "base/types.h"
#include "model/model_source.h"

namespace skipjack {

// "Compute these tokens of this sequence": a chunk of a prompt, one token, or several. The K and V of token i
// are written at position `position + i`, into block block_table[(position + i) / block_tokens].
struct BatchSlice {
  std::int32_t token_offset = 0;  // into StepBatch::tokens
  std::int32_t token_count = 0;
  std::int32_t position = 0;  // position of the first of them; everything before is in the KV cache
  std::span<const BlockId> block_table;  // covers [0, position + token_count)
  // Logits are wanted for the last n of these tokens; 0 for all but a prompt's last chunk.
  std::int32_t logits_rows = 0;
};

struct StepBatch {
  std::span<const TokenId> tokens;
  std::span<const BatchSlice> slices;
  // Who may ask this step to stop; null: nobody. `ticket` says which step it is (see step_interrupt.h).
  const StepInterrupt* interrupt = nullptr;
  std::uint64_t ticket = 0;

  bool IsInterrupted() const { return interrupt != nullptr && interrupt->IsRequested(ticket); }
};

// Row-major [rows, vocabulary], in the order of the slices. Valid until the next Forward().
struct StepLogits {
  std::span<float> data;
  std::int32_t rows = 0;
  std::int32_t vocabulary = 0;

  std::span<float> Row(std::int32_t row) const {
    return data.subspan(static_cast<std::size_t>(row) * static_cast<std::size_t>(vocabulary),
                        static_cast<std::size_t>(vocabulary));
  }
};

// Everything is allocated from these at Create(); Forward() allocates nothing.
struct RunnerLimits {
  std::int32_t block_tokens = 16;
  std::int32_t kv_blocks = 0;          // size of the KV pool
  std::int32_t host_blocks = 0;        // of host memory, for KV that is not computed with
  std::int32_t disk_blocks = 0;        // of a file, for the same
  std::int32_t max_step_tokens = 512;  // tokens of one step
  std::int32_t max_slices = 64;
  std::int32_t max_logits_rows = 64;
  std::int32_t context_length = 0;

  TierSizes tiers() const { return {kv_blocks, host_blocks, disk_blocks}; }
};

// Which part of loading is done, for a progress bar: fraction in [0, 1].
using LoadProgress = std::function<void(const std::string& phase, double fraction)>;

class ModelRunner {
 public:
  virtual ~ModelRunner() = default;

  // Computes one step. Idempotent: running the same batch again gives the same KV and logits. A failure is
  // the step's (device) failure; per-row numerical trouble shows in the logits and is the sampler's to find.
  //
  // ABORTED, and only then, where the batch's interrupt asked it to stop: within a millisecond where the
  // device allows, at its end where it does not look. The slots of the batch's own tokens then hold anything;
  // no other KV was touched, so the step can be computed again, or something else.
  virtual Result<StepLogits> Forward(const StepBatch& batch) = 0;

  // Copies KV blocks, in order, and adds to `report`. May run on another thread while Forward() computes, for
  // blocks that the step neither reads nor writes; one call at a time. Blocks are numbered over all tiers
  // (see base/block_copy.h).
  virtual void CopyBlocks(std::span<const BlockCopy> copies, CopyReport* report) = 0;

  // Runs body(i) for i in [0, count) on the runner's threads and waits; for per-row work after Forward
  // (sampling). Bodies must not throw and must touch disjoint state.
  virtual void ParallelFor(std::int32_t count, const std::function<void(std::int32_t)>& body) = 0;

  virtual std::int32_t vocabulary() const = 0;
  // "cpu avx2 int8 threads=2" for logs and the Status call.
  virtual std::string description() const = 0;
};

// KV bytes one block takes, to turn a memory budget into a number of blocks.
struct KvLayout {
  std::int64_t block_bytes = 0;
};

}  // namespace skipjack
