// Matrix products of the CPU engine: out[m][n] = sum over k of activations[m][k] * weights[n][k], for any
// number of rows m >= 1, by a table of functions per instruction-set level.
//
// Guarantee: for one level, the values of an output row depend on that row's activations and the weights
// only: not on the number of rows, how they are tiled, or which panels a call computes. They are
// bit-identical.
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/quantize.h"
#include "kernels/cpu/stop_signal.h"

namespace skipjack::kernels {

enum class Epilogue : std::uint8_t {
  kStore,   // out = y
  kAdd,     // out += y
  kSwiGlu,  // out = silu(y of `weights`) * y of `up`
};

struct LinearArgs {
  const PackedMatrix* weights = nullptr;
  const PackedMatrix* up = nullptr;  // kSwiGlu only: rows and columns as `weights`, same activation kind
  Activations activations;           // of the kind ActivationFor(weights->format) says
  std::int32_t rows = 0;             // M, of activations and output
  std::int64_t first_panel = 0;      // this call computes output columns [16 * first_panel,
  std::int64_t panel_count = 0;      //   16 * (first_panel + panel_count)), cut at weights->rows
  float* out = nullptr;              // column 0 of row 0; any alignment
  std::int64_t out_stride = 0;       // floats between rows
  const float* bias = nullptr;       // weights->rows floats or null; added to y (kStore and kAdd)
  Epilogue epilogue = Epilogue::kStore;
  StopSignal stop;  // looked at every 256 columns of a panel
};

// The functions of one level. All are thread-safe, allocate nothing and use less than 64 KiB of stack. A NaN
// or infinity among the activations of a row makes that row's outputs non-finite, and no other's.
struct KernelTable {
  IsaLevel level = IsaLevel::kGeneric;
  const char* name = "";
  bool wide_codes_need_pairs = false;  // codes above 63 meet kInt8Pairs
  bool bfloat16_products = false;      // bfloat16 weights meet kBFloat16

  void (*linear)(const LinearArgs& args) = nullptr;

  // Quantises one row of `columns` floats into ceil(columns / 32) blocks at `out` (kFloat32: copies). Columns
  // beyond the last count as zero. May be called by the producer of the row, for any part of it that starts
  // at a multiple of 32 columns.
  void (*quantize)(ActivationKind kind, const float* x, std::int64_t columns, void* out) = nullptr;

  // The activations that weights of this format are multiplied with.
  ActivationKind ActivationFor(const PackedFormat& format) const {
    if (!format.is_integer()) {
      const bool pairs = bfloat16_products && format.storage == CodeStorage::kBFloat16;
      return pairs ? ActivationKind::kBFloat16 : ActivationKind::kFloat32;
    }
    return wide_codes_need_pairs && format.max_code > 63 ? ActivationKind::kInt8Pairs : ActivationKind::kInt8;
  }
};

// The table of a level, or nullptr when IsSupported(level) is false.
const KernelTable* Select(IsaLevel level);

// As Select(), but where the machine multiplies bfloat16 pairs (AVX512_BF16), bfloat16 weights do so: about
// twice as fast, and activations lose what bfloat16 cannot hold.
const KernelTable* SelectWithBFloat16Products(IsaLevel level);

// Row r of `rows` at x + r * stride is quantised to out + r * out_row_bytes.
void QuantizeRows(const KernelTable& table, ActivationKind kind, const float* x, std::int64_t rows,
                  std::int64_t columns, std::int64_t stride, std::byte* out, std::size_t out_row_bytes);

}  // namespace skipjack::kernels
