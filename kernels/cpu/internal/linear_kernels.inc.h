// The matrix product, written once over the operations of an instruction-set level S (simd_generic.h,
// simd_avx2.h, simd_avx512.h) and compiled once per level with that level's flags.
//
// Nothing here may have a name that another level's object file also defines: every function is a member of a
// template over S, and no function template of the standard library is instantiated (the linker would keep
// one copy of it, which could be the one with instructions this machine lacks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/linear.h"

namespace skipjack::kernels {

// One chunk (up to 256 columns) of a panel, ready to be multiplied.
struct IntegerChunk {
  // One of these: codes as stored where the level multiplies them directly, else expanded to the kByte
  // layout.
  const std::uint8_t* two_bits = nullptr;
  const std::uint8_t* nibbles = nullptr;
  const std::uint8_t* bytes = nullptr;
  const float* scales = nullptr;  // [groups][16]
  const float* minima = nullptr;  // [groups][16]
  int blocks = 0;                 // of 32 columns
  int group = 32;
  int max_code = 255;
};

template <class S>
class LinearKernels {
 public:
  static void Linear(const LinearArgs& args) {
    const int step = RowsPerBlock(args);
    const int blocks = (args.rows + step - 1) / step;
    for (int b = 0; b < blocks; ++b) {  // blocks of nearly equal size
      const int first = static_cast<int>(static_cast<std::int64_t>(args.rows) * b / blocks);
      const int last = static_cast<int>(static_cast<std::int64_t>(args.rows) * (b + 1) / blocks);
      RowBlock(args, first, last - first);
    }
  }

 private:
  using Floats = typename S::Floats;

  static constexpr int kMaxRows = 256;
  static constexpr std::size_t kCacheBytes =
      256 * 1024;  // of activations that stay in L2 while panels pass by
  static constexpr int kMaxGroups = kChunkColumns / 16;

  // Working memory of one call, on its stack.
  struct Scratch {
    alignas(64) float sums[kMaxRows * kPanelRows];
    alignas(64) float up_sums[kMaxRows * kPanelRows];
    alignas(64) float scales[kMaxGroups * kPanelRows];
    alignas(64) float minima[kMaxGroups * kPanelRows];
    union {
      alignas(64) std::uint8_t codes[kChunkColumns * kPanelRows];
      alignas(64) float weights[kChunkColumns * kPanelRows];
    };
  };

  // Rows of one call, from its activations' first row on.
  struct Rows {
    const std::byte* activations;
    std::size_t row_bytes;
    int count;
  };

  // Sizes of a chunk, which would cost divisions to work out for each.
  struct ChunkShape {
    ChunkShape(const PackedFormat& format, int width)
        : columns(width),
          groups(format.is_integer() ? width / format.group : 0),
          scale_bytes(ChunkScaleBytes(format, width)),
          bytes(ChunkBytes(format, width)) {}

    int columns;
    int groups;
    std::size_t scale_bytes;
    std::size_t bytes;
  };

  // A matrix and the shapes of its panels' chunks: all full but the last.
  struct Panels {
    explicit Panels(const PackedMatrix& from)
        : matrix(from),
          full_chunks(from.columns / kChunkColumns),
          full(from.format, kChunkColumns),
          rest(from.format, static_cast<int>(from.columns % kChunkColumns)) {}

    const PackedMatrix& matrix;
    std::int64_t full_chunks;
    ChunkShape full;
    ChunkShape rest;  // may have no columns
  };

  static int RowsPerBlock(const LinearArgs& args) {
    const std::size_t fit = kCacheBytes / args.activations.row_bytes / 8 * 8;
    if (fit < 32) return 32;
    return fit < kMaxRows ? static_cast<int>(fit) : kMaxRows;
  }

  static void RowBlock(const LinearArgs& args, int first_row, int row_count) {
    Scratch scratch;
    const std::size_t row_bytes = args.activations.row_bytes;
    const Rows rows{args.activations.data + static_cast<std::size_t>(first_row) * row_bytes, row_bytes,
                    row_count};
    const bool gated = args.epilogue == Epilogue::kSwiGlu;
    const Panels weights(*args.weights);
    const Panels up(gated ? *args.up : *args.weights);
    for (std::int64_t p = args.first_panel; p < args.first_panel + args.panel_count; ++p) {
      if (!Panel(weights, p, rows, args.stop, scratch, scratch.sums)) return;
      if (gated && !Panel(up, p, rows, args.stop, scratch, scratch.up_sums)) return;
      Finish(args, p, first_row, row_count, scratch);
    }
  }

  // False when it was stopped.
  static bool Panel(const Panels& panels, std::int64_t panel, const Rows& rows, const StopSignal& stop,
                    Scratch& scratch, float* sums) {
    std::memset(sums, 0, static_cast<std::size_t>(rows.count) * kPanelRows * sizeof(float));
    const PackedFormat& format = panels.matrix.format;
    const std::byte* chunk = panels.matrix.Panel(panel);
    for (std::int64_t c = 0; c < panels.full_chunks; ++c, chunk += panels.full.bytes) {
      if (stop.IsRaised()) return false;
      Chunk(format, panels.full, chunk, c * kChunkColumns, rows, scratch, sums);
    }
    if (panels.rest.columns > 0)
      Chunk(format, panels.rest, chunk, panels.full_chunks * kChunkColumns, rows, scratch, sums);
    return true;
  }

  static void Chunk(const PackedFormat& format, const ChunkShape& shape, const std::byte* packed,
                    std::int64_t column, const Rows& rows, Scratch& scratch, float* sums) {
    if constexpr (S::kBFloat16Products) {
      if (format.storage == CodeStorage::kBFloat16)
        return BFloat16Columns(packed, column, shape.columns, rows, sums);
    }
    if (format.is_integer()) return IntegerColumns(format, shape, packed, column, rows, scratch, sums);
    FloatColumns(format, packed, column, shape.columns, rows, scratch, sums);
  }

  // ---- integer codes ----

  static void IntegerColumns(const PackedFormat& format, const ChunkShape& shape, const std::byte* packed,
                             std::int64_t column, const Rows& rows, Scratch& scratch, float* sums) {
    const auto* scales = reinterpret_cast<const std::uint8_t*>(packed);
    const std::uint8_t* codes = scales + shape.scale_bytes;
    ExpandScales(format, scales, shape.groups, scratch);
    IntegerChunk chunk;
    chunk.scales = scratch.scales;
    chunk.minima = scratch.minima;
    chunk.blocks = shape.columns / kBlockColumns;
    chunk.group = format.group;
    chunk.max_code = format.max_code;
    if (format.storage == CodeStorage::kByte) {
      chunk.bytes = codes;
    } else if (S::kMultipliesPacked && format.storage == CodeStorage::kTwoBits) {
      chunk.two_bits = codes;
    } else if (S::kMultipliesPacked && format.storage == CodeStorage::kNibble &&
               format.table == CodeTable::kNone) {
      chunk.nibbles = codes;
    } else {
      ExpandCodes(format, codes, chunk.blocks, scratch.codes);
      chunk.bytes = scratch.codes;
    }
    const std::byte* first =
        rows.activations + static_cast<std::size_t>(column / kBlockColumns) * sizeof(ActivationBlock);
    S::MultiplyInteger(chunk, first, rows.row_bytes, rows.count, sums);
  }

  // Scales and minima of a chunk as float32, [group][row]; without stored minima these are -zero * scale.
  static void ExpandScales(const PackedFormat& format, const std::uint8_t* packed, int groups,
                           Scratch& scratch) {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(packed);
    const Floats zero = S::Set1(-static_cast<float>(format.zero));
    if (format.scale == ScaleForm::kTwoLevel) return ExpandTwoLevel(format, packed, groups, scratch);
    for (int g = 0; g < groups; ++g) {
      const std::uint16_t* source = halves + g * kPanelRows;
      const Floats scale = format.scale == ScaleForm::kHalf ? S::LoadHalf(source) : S::LoadBFloat16(source);
      S::Store(scratch.scales + g * kPanelRows, scale);
      const Floats minimum =
          format.stored_minimum ? S::LoadHalf(source + groups * kPanelRows) : S::Mul(zero, scale);
      S::Store(scratch.minima + g * kPanelRows, minimum);
    }
  }

  static void ExpandTwoLevel(const PackedFormat& format, const std::uint8_t* packed, int groups,
                             Scratch& scratch) {
    const auto* halves = reinterpret_cast<const std::uint16_t*>(packed);
    const Floats super_scale = S::LoadHalf(halves);
    const Floats super_minimum = format.stored_minimum
                                     ? S::Mul(S::Set1(-1.0f), S::LoadHalf(halves + kPanelRows))
                                     : S::Set1(-static_cast<float>(format.zero));
    const std::uint8_t* group = packed + (format.stored_minimum ? 2 : 1) * kPanelRows * sizeof(std::uint16_t);
    const std::uint8_t* minima = group + groups * kPanelRows;
    for (int g = 0; g < groups; ++g) {
      const Floats scale =
          S::Mul(super_scale, S::LoadInt8(reinterpret_cast<const std::int8_t*>(group) + g * kPanelRows));
      S::Store(scratch.scales + g * kPanelRows, scale);
      const Floats factor = format.stored_minimum ? S::LoadUint8(minima + g * kPanelRows) : scale;
      S::Store(scratch.minima + g * kPanelRows, S::Mul(super_minimum, factor));
    }
  }

  // Any storage narrower than bytes to one byte per code.
  static void ExpandCodes(const PackedFormat& format, const std::uint8_t* codes, int blocks,
                          std::uint8_t* out) {
    const std::uint8_t* table = TableCodes(format.table);
    const std::size_t block_bytes = CodeBlockBytes(format.storage);
    for (int b = 0; b < blocks; ++b, out += 512, codes += block_bytes) {
      if (table != nullptr) {
        S::ExpandTable(codes, table, out);
      } else {
        ExpandBlock(format.storage, codes, out);
      }
    }
  }

  static void ExpandBlock(CodeStorage storage, const std::uint8_t* codes, std::uint8_t* out) {
    switch (storage) {
      case CodeStorage::kTwoBits:
        return S::ExpandTwoBits(codes, out);
      case CodeStorage::kTwoBitsPlus1:
        return S::ExpandTwoBitsPlus1(codes, out);
      case CodeStorage::kNibblePlus1:
        return S::ExpandNibblesPlus1(codes, out);
      case CodeStorage::kNibblePlus2:
        return S::ExpandNibblesPlus2(codes, out);
      default:
        return S::ExpandNibbles(codes, out);
    }
  }

  // ---- float weights ----

  static void BFloat16Columns(const std::byte* packed, std::int64_t column, int columns, const Rows& rows,
                              float* sums) {
    const std::byte* first = rows.activations + static_cast<std::size_t>(column) * sizeof(std::uint16_t);
    S::MultiplyBFloat16(packed, (columns + 1) / 2, first, rows.row_bytes, rows.count, sums);
  }

  static void FloatColumns(const PackedFormat& format, const std::byte* packed, std::int64_t column,
                           int columns, const Rows& rows, Scratch& scratch, float* sums) {
    const auto* x = reinterpret_cast<const float*>(rows.activations) + column;
    const std::int64_t stride = static_cast<std::int64_t>(rows.row_bytes / sizeof(float));
    switch (format.storage) {
      case CodeStorage::kFloat32:
        return FloatTiles<CodeStorage::kFloat32>(packed, columns, x, stride, rows.count, sums);
      case CodeStorage::kFloat16:
        return HalfTiles<CodeStorage::kFloat16>(packed, columns, x, stride, rows.count, scratch, sums);
      default:
        return HalfTiles<CodeStorage::kBFloat16>(packed, columns, x, stride, rows.count, scratch, sums);
    }
  }

  // More than one tile of rows: convert the chunk once and multiply from the copy; conversion is exact, so
  // the sums are the same.
  template <CodeStorage kStorage>
  static void HalfTiles(const std::byte* packed, int columns, const float* x, std::int64_t stride, int rows,
                        Scratch& scratch, float* sums) {
    if (rows <= S::kFloatTile) return FloatTiles<kStorage>(packed, columns, x, stride, rows, sums);
    for (int k = 0; k < columns; ++k)
      S::Store(scratch.weights + k * kPanelRows, LoadColumn<kStorage>(packed, k));
    const auto* copy = reinterpret_cast<const std::byte*>(scratch.weights);
    FloatTiles<CodeStorage::kFloat32>(copy, columns, x, stride, rows, sums);
  }

  template <CodeStorage kStorage>
  static Floats LoadColumn(const std::byte* packed, int k) {
    if constexpr (kStorage == CodeStorage::kFloat32) {
      return S::Load(reinterpret_cast<const float*>(packed) + k * kPanelRows);
    } else if constexpr (kStorage == CodeStorage::kFloat16) {
      return S::LoadHalf(reinterpret_cast<const std::uint16_t*>(packed) + k * kPanelRows);
    } else {
      const auto* pair = reinterpret_cast<const std::uint16_t*>(packed) + (k / 2) * 2 * kPanelRows;
      return k % 2 == 0 ? S::LoadBFloat16Even(pair) : S::LoadBFloat16Odd(pair);
    }
  }

  template <CodeStorage kStorage>
  static void FloatTiles(const std::byte* packed, int columns, const float* x, std::int64_t stride, int rows,
                         float* sums) {
    const int tiles = (rows + S::kFloatTile - 1) / S::kFloatTile;
    for (int t = 0; t < tiles; ++t) {
      const int first = rows * t / tiles;
      const int count = rows * (t + 1) / tiles - first;
      FloatTileOf<kStorage, S::kFloatTile>(count, packed, columns, x + first * stride, stride,
                                           sums + first * kPanelRows);
    }
  }

  template <CodeStorage kStorage, int kRows>
  static void FloatTileOf(int count, const std::byte* packed, int columns, const float* x,
                          std::int64_t stride, float* sums) {
    if constexpr (kRows > 1) {
      if (count < kRows) return FloatTileOf<kStorage, kRows - 1>(count, packed, columns, x, stride, sums);
    }
    FloatTile<kStorage, kRows>(packed, columns, x, stride, sums);
  }

  // Sums run over k in order, one fused multiply-add (where the level has it) per weight.
  template <CodeStorage kStorage, int kRows>
  static void FloatTile(const std::byte* packed, int columns, const float* x, std::int64_t stride,
                        float* sums) {
    Floats total[kRows];
    for (int m = 0; m < kRows; ++m) total[m] = S::Load(sums + m * kPanelRows);
    int k = 0;
    for (; k + 1 < columns; k += 2) {
      const Floats even = LoadColumn<kStorage>(packed, k);
      for (int m = 0; m < kRows; ++m) total[m] = S::MulAdd(even, S::Set1(x[m * stride + k]), total[m]);
      const Floats odd = LoadColumn<kStorage>(packed, k + 1);
      for (int m = 0; m < kRows; ++m) total[m] = S::MulAdd(odd, S::Set1(x[m * stride + k + 1]), total[m]);
    }
    if (k < columns) {
      const Floats last = LoadColumn<kStorage>(packed, k);
      for (int m = 0; m < kRows; ++m) total[m] = S::MulAdd(last, S::Set1(x[m * stride + k]), total[m]);
    }
    for (int m = 0; m < kRows; ++m) S::Store(sums + m * kPanelRows, total[m]);
  }

  // ---- epilogue ----

  static void Finish(const LinearArgs& args, std::int64_t panel, int first_row, int row_count,
                     Scratch& scratch) {
    const std::int64_t column = panel * kPanelRows;
    const std::int64_t left = args.weights->rows - column;
    const int width = left < kPanelRows ? static_cast<int>(left) : kPanelRows;
    float* out = args.out + first_row * args.out_stride + column;
    alignas(64) float bias[kPanelRows] = {};
    if (args.bias != nullptr)
      std::memcpy(bias, args.bias + column, static_cast<std::size_t>(width) * sizeof(float));
    const Floats added = S::Load(bias);
    for (int m = 0; m < row_count; ++m, out += args.out_stride) {
      Floats y = S::Add(S::Load(scratch.sums + m * kPanelRows), added);
      if (args.epilogue == Epilogue::kSwiGlu) y = S::Mul(Silu(y), S::Load(scratch.up_sums + m * kPanelRows));
      if (width == kPanelRows) {
        if (args.epilogue == Epilogue::kAdd) y = S::Add(S::Load(out), y);
        S::Store(out, y);
      } else {
        StorePartial(args.epilogue, y, width, out);
      }
    }
  }

  static void StorePartial(Epilogue epilogue, Floats y, int width, float* out) {
    alignas(64) float values[kPanelRows];
    S::Store(values, y);
    for (int i = 0; i < width; ++i) out[i] = epilogue == Epilogue::kAdd ? out[i] + values[i] : values[i];
  }

  static Floats Silu(Floats x) {
    const Floats e = Exp(S::Mul(S::Set1(-1.0f), x));
    return S::Div(x, S::Add(S::Set1(1.0f), e));
  }

  // exp(x) to about 2 ulp: 2^n * p(r), r = x - n ln 2 in [-0.35, 0.35], p of degree 6 (Taylor with the tail
  // spread, Cephes expf's coefficients). Saturates at exp(88); NaN stays NaN.
  static Floats Exp(Floats x) {
    x = S::Min(S::Set1(88.0f), S::Max(S::Set1(-87.0f), x));
    const Floats n = S::Round(S::Mul(x, S::Set1(1.44269504088896341f)));
    Floats r = S::MulAdd(n, S::Set1(-0.693359375f), x);
    r = S::MulAdd(n, S::Set1(2.12194440e-4f), r);
    Floats p = S::Set1(1.9875691500e-4f);
    p = S::MulAdd(p, r, S::Set1(1.3981999507e-3f));
    p = S::MulAdd(p, r, S::Set1(8.3334519073e-3f));
    p = S::MulAdd(p, r, S::Set1(4.1665795894e-2f));
    p = S::MulAdd(p, r, S::Set1(1.6666665459e-1f));
    p = S::MulAdd(p, r, S::Set1(5.0000001201e-1f));
    p = S::MulAdd(p, S::Mul(r, r), S::Add(r, S::Set1(1.0f)));
    return S::ScaleByPowerOfTwo(p, n);
  }
};

}  // namespace skipjack::kernels
