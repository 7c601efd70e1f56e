// Paged attention of a few tokens of one sequence for one key/value head and the query heads that share it.
//
// KV layout, per (block, layer, key/value head):
//   keys    [block_tokens / 16][head_dim][16]   tokens in lanes: a score tile is an outer product, with no
//   sums
//                                               across lanes
//   values  [block_tokens][ValueStride(head_dim)]   the dimension in lanes, padded with zeros
// Softmax runs online over chunks of kAttentionChunk tokens at absolute positions, folded from the left (as
// in FlashAttention). A row's result is made by the same operations in the same order whatever the other rows
// of the call are and however its chunks are spread over calls, so its bits do not depend on batching or
// threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/stop_signal.h"

namespace skipjack::kernels {

inline constexpr int kKeyLanes = 16;         // tokens of one key tile; block_tokens is a multiple of it
inline constexpr int kAttentionChunk = 256;  // tokens per softmax chunk
inline constexpr int kMaxHeadDim = 256;

constexpr int ValueStride(int head_dim) {
  return (head_dim + 15) / 16 * 16;
}

// One row of a partial result: maximum score, sum of the exponentials, and the weighted values [ValueStride].
constexpr int PartialStride(int head_dim) {
  return 16 + ValueStride(head_dim);
}

struct AttentionItem {
  // Rotated and scaled by 1/sqrt(head_dim): token t's heads at query + t * query_stride, [group][head_dim].
  const float* query = nullptr;
  std::int64_t query_stride = 0;
  // Laid out like the query. Unused when `partial` is set.
  float* output = nullptr;
  std::int64_t output_stride = 0;

  int tokens = 0;
  int group = 0;  // query heads per key/value head
  int head_dim = 0;
  int position = 0;  // of the first token; token t sees positions [0, position + t]

  // This layer's and head's keys and values in block 0; those of block b are block_stride bytes * b further.
  const void* keys = nullptr;
  const void* values = nullptr;
  std::int64_t block_stride = 0;
  const std::int32_t* block_table = nullptr;
  int block_tokens = 0;

  // Chunks to do, of the ceil((position + tokens) / kAttentionChunk) there are. With `partial` set, chunk c's
  // rows (t * group + head) go to partial + (c * tokens * group + row) * PartialStride(head_dim), to be
  // merged by MergePartials; otherwise all chunks are done and normalised into `output`.
  int first_chunk = 0;
  int end_chunk = 0;
  float* partial = nullptr;

  StopSignal stop;  // looked at before each chunk of a few rows
};

constexpr int AttentionChunks(int length) {
  return (length + kAttentionChunk - 1) / kAttentionChunk;
}

// Floats of scratch a caller provides, 64-byte aligned.
inline constexpr int kAttentionRows = 6;
inline constexpr int kAttentionScratchFloats = kAttentionRows * (3 * kMaxHeadDim + kAttentionChunk) + 2 * 16;

struct AttentionKernels {
  void (*attend_f32)(const AttentionItem& item, float* scratch);
  void (*attend_f16)(const AttentionItem& item, float* scratch);
  void (*attend_bf16)(const AttentionItem& item, float* scratch);
  // Folds all chunks of the item's partial rows, in order, into item.output.
  void (*merge_partials)(const AttentionItem& item, float* scratch);
};

}  // namespace skipjack::kernels
