// The attention kernels, compiled once per instruction-set level (float_kernels_*.cc); see attention.h for
// the layout.
#pragma once

#include "kernels/cpu/attention.h"
#include "kernels/cpu/internal/float_vector.h"

namespace skipjack::kernels {
namespace {

constexpr int kRows = kAttentionRows;
constexpr int kTileVectors = kKeyLanes / Vec::kLanes;
// Accumulators that fit the register file beside the operands.
constexpr int kAccumulators = Vec::kLanes == 16 ? 24 : 12;

// Scratch: all arrays have one row of fixed stride per query row, so that a row is an immediate offset.
struct Scratch {
  float query[kRows][kMaxHeadDim];
  float chunk_values[kRows][kMaxHeadDim];
  float values[kRows][kMaxHeadDim];  // running, not normalised
  float scores[kRows][kAttentionChunk];
  float maximum[16];
  float sum[16];
};
static_assert(sizeof(Scratch) == kAttentionScratchFloats * sizeof(float));

template <typename Kv>
struct Pages {
  explicit Pages(const AttentionItem& item)
      : keys(static_cast<const char*>(item.keys)),
        values(static_cast<const char*>(item.values)),
        block_stride(item.block_stride),
        block_table(item.block_table),
        block_tokens(item.block_tokens),
        head_dim(item.head_dim) {}

  const Kv* KeyTile(int token) const {
    const char* block = keys + block_stride * block_table[token / block_tokens];
    return reinterpret_cast<const Kv*>(block) + static_cast<int64_t>(token % block_tokens) * head_dim;
  }
  const Kv* ValueRow(int token) const {
    const char* block = values + block_stride * block_table[token / block_tokens];
    return reinterpret_cast<const Kv*>(block) +
           static_cast<int64_t>(token % block_tokens) * ValueStride(head_dim);
  }

  const char* keys;
  const char* values;
  int64_t block_stride;
  const int32_t* block_table;
  int block_tokens;
  int head_dim;
};

// Scores of R rows with T key tiles, each summed over the dimension in order.
template <typename Kv, int R, int T>
inline void ScoreTiles(const Scratch& scratch, const Kv* const* tiles, int head_dim, float* scores) {
  Vec sum[R][T * kTileVectors];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < T * kTileVectors; ++v) sum[r][v] = Zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    Vec key[T * kTileVectors];
    for (int v = 0; v < T * kTileVectors; ++v) {
      key[v] = Load(tiles[v / kTileVectors] + d * kKeyLanes + v % kTileVectors * Vec::kLanes);
    }
    for (int r = 0; r < R; ++r) {
      const Vec query = Broadcast(scratch.query[r][d]);
      for (int v = 0; v < T * kTileVectors; ++v) sum[r][v] = Fma(query, key[v], sum[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < T * kTileVectors; ++v) {
      Store(scores + r * kAttentionChunk + v * Vec::kLanes, sum[r][v]);
    }
  }
}

// Cached tokens lie in blocks far apart, which no hardware prefetcher follows: while a tile is multiplied,
// the keys of the tile kPrefetchTiles later and the values of this one (needed once the chunk's scores are
// known) are on their way.
constexpr int kPrefetchTiles = 2;

inline void PrefetchBytes(const void* memory, int64_t bytes) {
  for (int64_t offset = 0; offset < bytes; offset += 64)
    __builtin_prefetch(static_cast<const char*>(memory) + offset);
}

template <typename Kv>
inline void PrefetchKeys(const Pages<Kv>& pages, int token) {
  PrefetchBytes(pages.KeyTile(token), int64_t{kKeyLanes} * pages.head_dim * static_cast<int64_t>(sizeof(Kv)));
}

template <typename Kv>
inline void PrefetchValues(const Pages<Kv>& pages, int token) {
  PrefetchBytes(pages.ValueRow(token),
                int64_t{kKeyLanes} * ValueStride(pages.head_dim) * static_cast<int64_t>(sizeof(Kv)));
}

// Scores of the chunk's first `count` tokens (and, in the last tile, of slots behind them, which nobody
// reads).
template <typename Kv, int R>
void ScoreChunk(const Pages<Kv>& pages, int begin, int count, Scratch& scratch) {
  constexpr int kFit = kAccumulators / (R * kTileVectors);
  constexpr int kTiles = kFit >= 4 ? 4 : (kFit >= 2 ? 2 : 1);
  const auto prefetch = [&](int token) {
    if (token + kPrefetchTiles * kKeyLanes < count)
      PrefetchKeys(pages, begin + token + kPrefetchTiles * kKeyLanes);
    PrefetchValues(pages, begin + token);
  };
  for (int t = 0; t < kPrefetchTiles && t * kKeyLanes < count; ++t)
    PrefetchKeys(pages, begin + t * kKeyLanes);
  int token = 0;
  for (; token + kTiles * kKeyLanes <= count; token += kTiles * kKeyLanes) {
    const Kv* tiles[kTiles];
    for (int t = 0; t < kTiles; ++t) {
      tiles[t] = pages.KeyTile(begin + token + t * kKeyLanes);
      prefetch(token + t * kKeyLanes);
    }
    ScoreTiles<Kv, R, kTiles>(scratch, tiles, pages.head_dim, &scratch.scores[0][token]);
  }
  for (; token < count; token += kKeyLanes) {
    const Kv* tile = pages.KeyTile(begin + token);
    prefetch(token);
    ScoreTiles<Kv, R, 1>(scratch, &tile, pages.head_dim, &scratch.scores[0][token]);
  }
}

// scores -> exp(scores - maximum) over the first `count`; returns maximum and sum.
inline void Exponentiate(float* scores, int count, float* maximum, float* sum) {
  const Vec lowest = Broadcast(-__builtin_inff());
  Vec most = lowest;
  for (int i = 0; i < count; i += Vec::kLanes) {
    most = Max(Select(FirstLanes(count - i), Load(scores + i), lowest), most);
  }
  *maximum = ReduceMax(most);
  const Vec shift = Broadcast(*maximum);
  Vec total = Zero();
  for (int i = 0; i < count; i += Vec::kLanes) {
    const Vec p = Select(FirstLanes(count - i), Exp(Sub(Load(scores + i), shift)), Zero());
    Store(scores + i, p);
    total = Add(total, p);
  }
  *sum = ReduceAdd(total);
}

// Adds the probabilities times values of tokens [from, to) of the chunk to chunk_values, in order of the
// tokens, for rows [row, row + R) and W vectors of the dimension.
template <typename Kv, int R, int W>
inline void WeighBlock(const Pages<Kv>& pages, int begin, int from, int to, int row, int column,
                       Scratch& scratch) {
  Vec sum[R][W];
  for (int r = 0; r < R; ++r) {
    for (int w = 0; w < W; ++w) sum[r][w] = Load(&scratch.chunk_values[row + r][column + w * Vec::kLanes]);
  }
  const int stride = ValueStride(pages.head_dim);
  while (from < to) {
    const int left_in_block = pages.block_tokens - (begin + from) % pages.block_tokens;
    const int stop = to - from < left_in_block ? to : from + left_in_block;
    const Kv* value = pages.ValueRow(begin + from) + column;
    for (; from < stop; ++from, value += stride) {
      Vec v[W];
      for (int w = 0; w < W; ++w) v[w] = Load(value + w * Vec::kLanes);
      for (int r = 0; r < R; ++r) {
        const Vec p = Broadcast(scratch.scores[row + r][from]);
        for (int w = 0; w < W; ++w) sum[r][w] = Fma(p, v[w], sum[r][w]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int w = 0; w < W; ++w) Store(&scratch.chunk_values[row + r][column + w * Vec::kLanes], sum[r][w]);
  }
}

template <typename Kv, int R>
void WeighChunk(const Pages<Kv>& pages, int begin, int from, int to, int row, Scratch& scratch) {
  if (from >= to) return;
  constexpr int kFit = kAccumulators / R;
  constexpr int kWide = kFit >= 8 ? 8 : (kFit >= 4 ? 4 : 2);
  const int columns = ValueStride(pages.head_dim);
  int column = 0;
  for (; column + kWide * Vec::kLanes <= columns; column += kWide * Vec::kLanes) {
    WeighBlock<Kv, R, kWide>(pages, begin, from, to, row, column, scratch);
  }
  for (; column < columns; column += Vec::kLanes) {
    WeighBlock<Kv, R, 1>(pages, begin, from, to, row, column, scratch);
  }
}

struct Fold {
  float keep;  // factor for what was there
  float add;   // factor for what comes
};

inline float ExpOne(float x) {
  float lanes[Vec::kLanes];
  Store(lanes, Exp(Broadcast(x)));
  return lanes[0];
}

// One step of the online softmax: replaces maximum and sum by those of both parts together. A NaN score is in
// the sum of its part, and so stays in the row for good.
inline Fold FoldSoftmax(float chunk_maximum, float chunk_sum, float* maximum, float* sum) {
  const float most = chunk_maximum > *maximum ? chunk_maximum : *maximum;
  const Fold fold = {ExpOne(*maximum - most), ExpOne(chunk_maximum - most)};
  *maximum = most;
  *sum = *sum * fold.keep + chunk_sum * fold.add;
  return fold;
}

inline void FoldValues(Fold fold, const float* chunk_values, int columns, float* values) {
  const Vec keep = Broadcast(fold.keep);
  const Vec add = Broadcast(fold.add);
  for (int c = 0; c < columns; c += Vec::kLanes) {
    Store(values + c, Fma(Load(values + c), keep, Mul(Load(chunk_values + c), add)));
  }
}

inline void CopyRow(const float* from, int columns, float* to) {
  for (int c = 0; c < columns; c += Vec::kLanes) Store(to + c, Load(from + c));
}

inline void Normalise(const float* values, float sum, int head_dim, float* output) {
  const float inverse = 1.0f / sum;
  for (int d = 0; d < head_dim; ++d) output[d] = values[d] * inverse;
}

// What one row of the item is.
struct Row {
  Row(const AttentionItem& item, int index) : token(index / item.group), head(index % item.group) {
    length = item.position + token + 1;
  }
  int token;
  int head;
  int length;  // tokens it sees
};

inline float* PartialRow(const AttentionItem& item, int chunk, int row) {
  const int64_t index = static_cast<int64_t>(chunk) * item.tokens * item.group + row;
  return item.partial + index * PartialStride(item.head_dim);
}

template <typename Kv, int R>
void AttendRows(const AttentionItem& item, int first_row, Scratch& scratch) {
  const Pages<Kv> pages(item);
  const int columns = ValueStride(item.head_dim);
  for (int r = 0; r < R; ++r) {
    const Row row(item, first_row + r);
    const float* query = item.query + row.token * item.query_stride + row.head * item.head_dim;
    for (int d = 0; d < item.head_dim; ++d) scratch.query[r][d] = query[d];
  }
  const int longest = Row(item, first_row + R - 1).length;

  for (int chunk = item.first_chunk; chunk < item.end_chunk; ++chunk) {
    const int begin = chunk * kAttentionChunk;
    if (begin >= longest) break;
    if (item.stop.IsRaised()) return;
    // Rows are in the order of their tokens, so the first sees the least. It may end before this chunk
    // begins.
    int seen[R];
    for (int r = 0; r < R; ++r) {
      const int left = Row(item, first_row + r).length - begin;
      seen[r] = left < 0 ? 0 : (left > kAttentionChunk ? kAttentionChunk : left);
    }
    ScoreChunk<Kv, R>(pages, begin, seen[R - 1], scratch);

    float maximum[R];
    float sum[R];
    for (int r = 0; r < R; ++r) {
      if (seen[r] > 0) Exponentiate(scratch.scores[r], seen[r], &maximum[r], &sum[r]);
      for (int c = 0; c < columns; c += Vec::kLanes) Store(&scratch.chunk_values[r][c], Zero());
    }
    WeighChunk<Kv, R>(pages, begin, 0, seen[0], 0, scratch);
    for (int r = 1; r < R; ++r) WeighChunk<Kv, 1>(pages, begin, seen[0], seen[r], r, scratch);

    for (int r = 0; r < R; ++r) {
      if (seen[r] == 0) continue;
      if (item.partial != nullptr) {
        float* partial = PartialRow(item, chunk, first_row + r);
        partial[0] = maximum[r];
        partial[1] = sum[r];
        CopyRow(scratch.chunk_values[r], columns, partial + 16);
      } else if (chunk == 0) {
        scratch.maximum[r] = maximum[r];
        scratch.sum[r] = sum[r];
        CopyRow(scratch.chunk_values[r], columns, scratch.values[r]);
      } else {
        const Fold fold = FoldSoftmax(maximum[r], sum[r], &scratch.maximum[r], &scratch.sum[r]);
        FoldValues(fold, scratch.chunk_values[r], columns, scratch.values[r]);
      }
    }
  }
  if (item.partial != nullptr) return;
  for (int r = 0; r < R; ++r) {
    const Row row(item, first_row + r);
    Normalise(scratch.values[r], scratch.sum[r], item.head_dim,
              item.output + row.token * item.output_stride + row.head * item.head_dim);
  }
}

template <typename Kv>
void Attend(const AttentionItem& item, float* memory) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory);
  const int rows = item.tokens * item.group;
  int row = 0;
  for (; row + kRows <= rows; row += kRows) AttendRows<Kv, kRows>(item, row, scratch);
  switch (rows - row) {
    case 5:
      return AttendRows<Kv, 5>(item, row, scratch);
    case 4:
      return AttendRows<Kv, 4>(item, row, scratch);
    case 3:
      return AttendRows<Kv, 3>(item, row, scratch);
    case 2:
      return AttendRows<Kv, 2>(item, row, scratch);
    case 1:
      return AttendRows<Kv, 1>(item, row, scratch);
    default:
      return;
  }
}

void MergePartials(const AttentionItem& item, float* memory) {
  Scratch& scratch = *reinterpret_cast<Scratch*>(memory);
  const int columns = ValueStride(item.head_dim);
  for (int index = 0; index < item.tokens * item.group; ++index) {
    if (item.stop.IsRaised()) return;
    const Row row(item, index);
    const float* first = PartialRow(item, 0, index);
    float maximum = first[0];
    float sum = first[1];
    CopyRow(first + 16, columns, scratch.values[0]);
    for (int chunk = 1; chunk < AttentionChunks(row.length); ++chunk) {
      const float* partial = PartialRow(item, chunk, index);
      const Fold fold = FoldSoftmax(partial[0], partial[1], &maximum, &sum);
      FoldValues(fold, partial + 16, columns, scratch.values[0]);
    }
    Normalise(scratch.values[0], sum, item.head_dim,
              item.output + row.token * item.output_stride + row.head * item.head_dim);
  }
}

constexpr AttentionKernels kAttentionKernels = {Attend<float>, Attend<Half>, Attend<BFloat16>, MergePartials};

}  // namespace
}  // namespace skipjack::kernels
