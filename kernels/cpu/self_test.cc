#include "kernels/cpu/self_test.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/quant_blocks.h"

namespace skipjack::kernels {
namespace {

constexpr int kRows = 9;      // more than one tile
constexpr int kOutputs = 32;  // two panels

// One source type per packed format.
struct NamedType {
  const char* name;
  SourceType type;
  Precision precision;
};
constexpr NamedType kTypes[] = {
    {"Q4_0", SourceType::kQ4_0, Precision::kInt8},     {"Q4_1", SourceType::kQ4_1, Precision::kInt8},
    {"Q5_0", SourceType::kQ5_0, Precision::kInt8},     {"Q5_1", SourceType::kQ5_1, Precision::kInt8},
    {"Q8_0", SourceType::kQ8_0, Precision::kInt8},     {"Q2_K", SourceType::kQ2_K, Precision::kInt8},
    {"Q3_K", SourceType::kQ3_K, Precision::kInt8},     {"Q4_K", SourceType::kQ4_K, Precision::kInt8},
    {"Q5_K", SourceType::kQ5_K, Precision::kInt8},     {"Q6_K", SourceType::kQ6_K, Precision::kInt8},
    {"IQ4_NL", SourceType::kIQ4_NL, Precision::kInt8}, {"IQ4_XS", SourceType::kIQ4_XS, Precision::kInt8},
    {"MXFP4", SourceType::kMXFP4, Precision::kInt8},   {"TQ2_0", SourceType::kTQ2_0, Precision::kInt8},
    {"F16", SourceType::kF16, Precision::k16Bit},      {"BF16", SourceType::kBF16, Precision::k16Bit},
    {"F32", SourceType::kF32, Precision::kF32},
};

// A generator of our own, so that the data is the same everywhere.
class Random {
 public:
  std::uint32_t Bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  float Float() { return static_cast<float>(Bits()) * 0x1p-30f - 1.0f; }  // in [-1, 1)

 private:
  std::uint64_t state_ = 12345;
};

struct FreeBytes {
  void operator()(std::byte* p) const { std::free(p); }
};
using Bytes = std::unique_ptr<std::byte, FreeBytes>;

Bytes Allocate(std::size_t size) {
  return Bytes(static_cast<std::byte*>(std::aligned_alloc(64, (size + 63) / 64 * 64)));
}

void Write16(std::byte* p, std::uint16_t value) {
  std::memcpy(p, &value, sizeof(value));
}

std::uint16_t Read16(const std::byte* p) {
  std::uint16_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

int ByteAt(const std::byte* p) {
  return static_cast<int>(*p);
}

// ---- one chunk, by the layout that packed_matrix.h describes ----

void FillFloats(const PackedFormat& format, int columns, Random& random, std::byte* chunk) {
  for (int i = 0; i < columns * kPanelRows; ++i) {
    const float value = random.Float();
    if (format.storage == CodeStorage::kFloat32) std::memcpy(chunk + 4 * i, &value, sizeof(value));
    if (format.storage == CodeStorage::kFloat16) Write16(chunk + 2 * i, FloatToHalfBits(value));
    if (format.storage == CodeStorage::kBFloat16) Write16(chunk + 2 * i, FloatToBFloat16Bits(value));
  }
}

// Random scales, then random codes. Every code that fits the storage is one.
void FillIntegers(const PackedFormat& format, int columns, Random& random, std::byte* chunk) {
  const std::size_t bytes = ChunkBytes(format, columns);
  const std::size_t values = format.stored_minimum ? 2 : 1;
  const std::size_t groups =
      format.scale == ScaleForm::kTwoLevel ? 1u : static_cast<std::size_t>(columns / format.group);
  for (std::size_t i = 0; i < bytes; ++i) chunk[i] = static_cast<std::byte>(random.Bits());
  for (std::size_t i = 0; i < values * groups * kPanelRows; ++i) {
    const float scale = random.Float();
    Write16(chunk + 2 * i,
            format.scale == ScaleForm::kBFloat16 ? FloatToBFloat16Bits(scale) : FloatToHalfBits(scale));
  }
}

int Code(const PackedFormat& format, const std::byte* codes, int row, int column) {
  const int in_block = column % kBlockColumns;
  const int quad = in_block / 4;
  const int lane = 4 * row + in_block % 4;
  const std::byte* block =
      codes + static_cast<std::size_t>(column / kBlockColumns) * CodeBlockBytes(format.storage);
  const auto bit = [&](int plane) { return (ByteAt(block + plane + lane) >> quad) & 1; };
  const auto two_bits = [&](int planes) {
    return (ByteAt(block + planes + 64 * (quad / 4) + lane) >> (2 * (quad % 4))) & 3;
  };
  if (format.storage == CodeStorage::kByte) return ByteAt(block + 64 * quad + lane);
  if (format.storage == CodeStorage::kTwoBits) return two_bits(0);
  if (format.storage == CodeStorage::kTwoBitsPlus1) return two_bits(0) | bit(128) << 2;
  const int packed = ByteAt(block + 64 * (quad % 4) + lane);
  const int nibble = quad < 4 ? packed & 15 : packed >> 4;
  if (format.storage == CodeStorage::kNibblePlus1) return nibble | bit(256) << 4;
  if (format.storage == CodeStorage::kNibblePlus2) return nibble | two_bits(256) << 4;
  return format.table == CodeTable::kNone ? nibble : TableCodes(format.table)[nibble];
}

double IntegerWeight(const PackedFormat& format, const std::byte* chunk, int columns, int row, int column) {
  const int groups = columns / format.group;
  const int group = column / format.group;
  const int code = Code(format, chunk + ChunkScaleBytes(format, columns), row, column);
  if (format.scale == ScaleForm::kTwoLevel) {
    const std::byte* group_scales = chunk + (format.stored_minimum ? 64 : 32);
    const double scale = static_cast<double>(HalfBitsToFloat(Read16(chunk + 2 * row))) *
                         static_cast<std::int8_t>(ByteAt(group_scales + group * kPanelRows + row));
    if (!format.stored_minimum) return scale * (code - format.zero);
    const double minimum = static_cast<double>(HalfBitsToFloat(Read16(chunk + 32 + 2 * row))) *
                           ByteAt(group_scales + (groups + group) * kPanelRows + row);
    return scale * code - minimum;
  }
  const std::byte* slot = chunk + 2 * (group * kPanelRows + row);
  const bool half = format.scale == ScaleForm::kHalf;
  const double scale = half ? HalfBitsToFloat(Read16(slot)) : BFloat16BitsToFloat(Read16(slot));
  if (!format.stored_minimum) return scale * (code - format.zero);
  return scale * code + static_cast<double>(HalfBitsToFloat(Read16(slot + 2 * groups * kPanelRows)));
}

double FloatWeight(const PackedFormat& format, const std::byte* chunk, int row, int column) {
  if (format.storage == CodeStorage::kFloat32) {
    float value;
    std::memcpy(&value, chunk + 4 * (column * kPanelRows + row), sizeof(value));
    return value;
  }
  if (format.storage == CodeStorage::kFloat16)
    return HalfBitsToFloat(Read16(chunk + 2 * (column * kPanelRows + row)));
  return BFloat16BitsToFloat(Read16(chunk + 2 * (column / 2 * 2 * kPanelRows + 2 * row + column % 2)));
}

// ---- the checks ----

double ActivationValue(const Activations& x, int row, int column) {
  const std::byte* start = x.data + static_cast<std::size_t>(row) * x.row_bytes;
  if (x.kind == ActivationKind::kFloat32) return reinterpret_cast<const float*>(start)[column];
  if (x.kind == ActivationKind::kBFloat16) {
    return BFloat16BitsToFloat(reinterpret_cast<const std::uint16_t*>(start)[column]);
  }
  const ActivationBlock& block = reinterpret_cast<const ActivationBlock*>(start)[column / kBlockColumns];
  return static_cast<double>(block.codes[column % kBlockColumns]) * static_cast<double>(block.scale);
}

bool QuantizeAgrees(const KernelTable& table, ActivationKind kind) {
  constexpr int kBlocks = 4;
  Random random;
  float x[kBlocks * kBlockColumns];
  for (float& v : x) v = random.Float();
  ActivationBlock blocks[kBlocks];
  table.quantize(kind, x, kBlocks * kBlockColumns, blocks);
  for (int b = 0; b < kBlocks; ++b) {
    const float* values = x + b * kBlockColumns;
    float largest = 0.0f;
    for (int i = 0; i < kBlockColumns; ++i) {
      const float neighbour = kind == ActivationKind::kInt8Pairs ? std::fabs(values[i ^ 1]) : 0.0f;
      largest = std::fmax(largest, std::fabs(values[i]) + neighbour);
    }
    const float scale = largest / 127.0f;
    if (blocks[b].scale != scale) return false;
    for (int i = 0; i < kBlockColumns; ++i) {
      if (blocks[b].codes[i] != std::nearbyint(values[i] * (1.0f / scale))) return false;
    }
  }
  return true;
}

// A matrix of random packed chunks (one of 256 columns, then one of 32 where the format allows it) against
// sums in double over what the bytes mean.
class LinearCheck {
 public:
  LinearCheck(const KernelTable& table, const PackedFormat& format)
      : table_(table),
        first_(kChunkColumns),
        rest_(format.scale == ScaleForm::kTwoLevel ? kChunkColumns : kBlockColumns),
        memory_(Allocate(PackedBytes(format, kOutputs, first_ + rest_))) {
    matrix_.format = format;
    matrix_.rows = kOutputs;
    matrix_.columns = first_ + rest_;
    matrix_.panel_bytes = PanelBytes(format, matrix_.columns);
    matrix_.data = memory_.get();
  }

  bool Agrees() {
    Random random;
    for (std::int64_t p = 0; p < matrix_.panels(); ++p) {
      std::byte* panel = memory_.get() + static_cast<std::size_t>(p) * matrix_.panel_bytes;
      Fill(first_, random, panel);
      Fill(rest_, random, panel + ChunkBytes(matrix_.format, first_));
    }
    const int columns = first_ + rest_;
    std::vector<float> values(static_cast<std::size_t>(kRows * columns));
    for (float& v : values) v = random.Float();
    const ActivationKind kind = table_.ActivationFor(matrix_.format);
    const std::size_t row_bytes = ActivationRowBytes(kind, columns);
    const Bytes quantised = Allocate(kRows * row_bytes);
    QuantizeRows(table_, kind, values.data(), kRows, columns, columns, quantised.get(), row_bytes);

    std::vector<float> out(kRows * kOutputs);
    LinearArgs args;
    args.weights = &matrix_;
    args.activations = {kind, quantised.get(), row_bytes};
    args.rows = kRows;
    args.panel_count = matrix_.panels();
    args.out = out.data();
    args.out_stride = kOutputs;
    table_.linear(args);
    std::vector<double> x;
    for (int m = 0; m < kRows; ++m) {
      for (int k = 0; k < columns; ++k) x.push_back(ActivationValue(args.activations, m, k));
    }
    for (int n = 0; n < kOutputs; ++n) {
      if (!ColumnAgrees(n, x, out)) return false;
    }
    return true;
  }

 private:
  void Fill(int columns, Random& random, std::byte* chunk) const {
    if (matrix_.format.is_integer()) return FillIntegers(matrix_.format, columns, random, chunk);
    FillFloats(matrix_.format, columns, random, chunk);
  }

  double Weight(int output, int column) const {
    const std::byte* chunk = matrix_.Panel(output / kPanelRows);
    const int columns = column < first_ ? first_ : rest_;
    if (column >= first_) chunk += ChunkBytes(matrix_.format, first_);
    const int row = output % kPanelRows;
    const int inside = column < first_ ? column : column - first_;
    return matrix_.format.is_integer() ? IntegerWeight(matrix_.format, chunk, columns, row, inside)
                                       : FloatWeight(matrix_.format, chunk, row, inside);
  }

  // One output of every row of activations `x`.
  bool ColumnAgrees(int output, const std::vector<double>& x, const std::vector<float>& out) const {
    const int columns = first_ + rest_;
    double weights[2 * kChunkColumns];
    for (int k = 0; k < columns; ++k) weights[k] = Weight(output, k);
    for (int m = 0; m < kRows; ++m) {
      double want = 0.0;
      double magnitude = 0.0;
      for (int k = 0; k < columns; ++k) {
        const double product = weights[k] * x[static_cast<std::size_t>(m * columns + k)];
        want += product;
        magnitude += std::fabs(product);
      }
      const float got = out[static_cast<std::size_t>(m * kOutputs + output)];
      if (!(std::fabs(got - want) <= 1e-5 * magnitude)) return false;  // NaN is no agreement
    }
    return true;
  }

  const KernelTable& table_;
  int first_;
  int rest_;
  Bytes memory_;
  PackedMatrix matrix_;
};

void Append(const std::string& name, std::string* failed) {
  if (!failed->empty()) *failed += ", ";
  *failed += name;
}

}  // namespace

std::string SelfTest(const KernelTable& table) {
  std::string failed;
  if (!QuantizeAgrees(table, ActivationKind::kInt8)) Append("quantize int8", &failed);
  if (!QuantizeAgrees(table, ActivationKind::kInt8Pairs)) Append("quantize int8 pairs", &failed);
  for (const NamedType& type : kTypes) {
    const PackedFormat format = *FormatFor(type.type, type.precision);
    if (!LinearCheck(table, format).Agrees()) Append(std::string("linear ") + type.name, &failed);
  }
  return failed;
}

}  // namespace skipjack::kernels
