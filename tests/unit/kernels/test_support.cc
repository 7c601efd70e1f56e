#include "tests/unit/kernels/test_support.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/quant_blocks.h"
#if defined(SKIPJACK_HAVE_SIMDE)
#include "tests/unit/kernels/kernels_avx512_simde.h"
#endif

namespace skipjack::kernels {

AlignedBytes::AlignedBytes(std::size_t size)
    : size_((size + 63) / 64 * 64),
      data_(static_cast<std::byte*>(std::aligned_alloc(64, std::max<std::size_t>(size_, 64)))) {
  std::memset(data_.get(), 0, size_);
}

void AlignedBytes::Free::operator()(std::byte* p) const {
  std::free(p);
}

const std::vector<Level>& TestedLevels() {
  static const std::vector<Level> levels = [] {
    std::vector<Level> list;
    for (IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kAvx2, IsaLevel::kAvx512}) {
      const KernelTable* table = Select(level);
      if (table == nullptr) continue;
      list.push_back({IsaName(level), table});
      const KernelTable* with_pairs = SelectWithBFloat16Products(level);
      if (with_pairs != table) list.push_back({std::string(IsaName(level)) + "_bf16", with_pairs});
    }
#if defined(SKIPJACK_HAVE_SIMDE)
    if (IsSupported(IsaLevel::kAvx2)) {
      list.push_back({"avx512_simde", &kAvx512SimdeKernels});
      list.push_back({"avx512_bf16_simde", &kAvx512BFloat16SimdeKernels});
    }
#endif
    return list;
  }();
  return levels;
}

std::ostream& operator<<(std::ostream& stream, const Level& level) {
  return stream << level.name;
}

const std::vector<SourceType>& AllSourceTypes() {
  using enum SourceType;
  static const std::vector<SourceType> types = {kF32,  kF16,    kBF16,   kQ4_0,  kQ4_1,  kQ5_0,
                                                kQ5_1, kQ8_0,   kQ2_K,   kQ3_K,  kQ4_K,  kQ5_K,
                                                kQ6_K, kIQ4_NL, kIQ4_XS, kMXFP4, kTQ1_0, kTQ2_0};
  return types;
}

std::string TypeName(SourceType type) {
  switch (type) {
    case SourceType::kF32:
      return "F32";
    case SourceType::kF16:
      return "F16";
    case SourceType::kQ4_0:
      return "Q4_0";
    case SourceType::kQ4_1:
      return "Q4_1";
    case SourceType::kQ5_0:
      return "Q5_0";
    case SourceType::kQ5_1:
      return "Q5_1";
    case SourceType::kQ8_0:
      return "Q8_0";
    case SourceType::kQ2_K:
      return "Q2_K";
    case SourceType::kQ3_K:
      return "Q3_K";
    case SourceType::kQ4_K:
      return "Q4_K";
    case SourceType::kQ5_K:
      return "Q5_K";
    case SourceType::kQ6_K:
      return "Q6_K";
    case SourceType::kIQ4_NL:
      return "IQ4_NL";
    case SourceType::kIQ4_XS:
      return "IQ4_XS";
    case SourceType::kBF16:
      return "BF16";
    case SourceType::kTQ1_0:
      return "TQ1_0";
    case SourceType::kTQ2_0:
      return "TQ2_0";
    case SourceType::kMXFP4:
      return "MXFP4";
  }
  return "unknown";
}

namespace {

// Offsets of the float16 fields in a block.
std::vector<int> HalfFields(SourceType type) {
  switch (type) {
    case SourceType::kQ4_0:
    case SourceType::kQ5_0:
    case SourceType::kQ8_0:
    case SourceType::kIQ4_NL:
    case SourceType::kIQ4_XS:
      return {0};
    case SourceType::kQ4_1:
    case SourceType::kQ5_1:
    case SourceType::kQ4_K:
    case SourceType::kQ5_K:
      return {0, 2};
    case SourceType::kQ2_K:
      return {80, 82};
    case SourceType::kQ3_K:
      return {108};
    case SourceType::kQ6_K:
      return {208};
    case SourceType::kTQ1_0:
      return {52};
    case SourceType::kTQ2_0:
      return {64};
    default:
      return {};
  }
}

void FillBlock(SourceType type, Fill fill, std::mt19937& random, std::byte* block) {
  std::uniform_int_distribution<int> byte(0, 255);
  std::uniform_real_distribution<float> real(-0.125f, 0.125f);
  const int bytes = SourceBlockBytes(type);
  for (int i = 0; i < bytes; ++i) {
    int value = byte(random);
    if (fill == Fill::kLargestCodes) value = type == SourceType::kQ8_0 ? 127 : 255;
    if (fill == Fill::kSmallestCodes) value = type == SourceType::kQ8_0 ? 128 : 0;
    block[i] = static_cast<std::byte>(value);
  }
  for (int offset : HalfFields(type)) {
    const float scale = fill == Fill::kRandom ? real(random) : 0.0625f;
    const std::uint16_t bits = FloatToHalfBits(scale);
    std::memcpy(block + offset, &bits, sizeof(bits));
  }
  if (type == SourceType::kMXFP4) block[0] = static_cast<std::byte>(120 + byte(random) % 8);
  const float value = fill == Fill::kSmallestCodes  ? -1.0f
                      : fill == Fill::kLargestCodes ? 1.0f
                                                    : real(random);
  const std::uint16_t half = type == SourceType::kF16 ? FloatToHalfBits(value) : FloatToBFloat16Bits(value);
  if (type == SourceType::kF32) std::memcpy(block, &value, sizeof(value));
  if (type == SourceType::kF16 || type == SourceType::kBF16) std::memcpy(block, &half, sizeof(half));
}

}  // namespace

std::vector<std::byte> MakeBlocks(SourceType type, std::int64_t rows, std::int64_t columns, Fill fill,
                                  unsigned seed) {
  std::mt19937 random(seed);
  const std::size_t blocks = static_cast<std::size_t>(rows * (columns / SourceBlockElements(type)));
  const std::size_t bytes = static_cast<std::size_t>(SourceBlockBytes(type));
  std::vector<std::byte> source(blocks * bytes);
  for (std::size_t i = 0; i < blocks; ++i) FillBlock(type, fill, random, source.data() + i * bytes);
  return source;
}

TestMatrix::TestMatrix(SourceType type, Precision precision, std::int64_t rows, std::int64_t columns,
                       Fill fill, unsigned seed)
    : values_(static_cast<std::size_t>(rows * columns)),
      memory_(PackedBytes(*FormatFor(type, precision), rows, columns)) {
  const auto blocks = MakeBlocks(type, rows, columns, fill, seed);
  const int elements = SourceBlockElements(type);
  const std::size_t block_bytes = static_cast<std::size_t>(SourceBlockBytes(type));
  PackSource source{type, blocks.data(), block_bytes * static_cast<std::size_t>(columns / elements), rows,
                    columns};
  packed_.format = *FormatFor(type, precision);
  packed_.rows = rows;
  packed_.columns = columns;
  packed_.panel_bytes = PanelBytes(packed_.format, columns);
  packed_.data = memory_.data();
  PackPanels(packed_.format, source, 0, PanelCount(rows), memory_.data());
  std::vector<float> decoded(static_cast<std::size_t>(elements));
  for (std::size_t b = 0; b * block_bytes < blocks.size(); ++b) {
    DequantizeBlock(type, blocks.data() + b * block_bytes, decoded.data());
    for (int i = 0; i < elements; ++i) {
      float value = decoded[static_cast<std::size_t>(i)];
      if (packed_.format.storage == CodeStorage::kFloat16) value = HalfBitsToFloat(FloatToHalfBits(value));
      if (packed_.format.storage == CodeStorage::kBFloat16)
        value = BFloat16BitsToFloat(FloatToBFloat16Bits(value));
      values_[b * static_cast<std::size_t>(elements) + static_cast<std::size_t>(i)] = value;
    }
  }
}

TestActivations::TestActivations(const KernelTable& table, ActivationKind kind, std::int64_t rows,
                                 std::int64_t columns, std::vector<float> values)
    : columns_(columns),
      values_(std::move(values)),
      memory_(static_cast<std::size_t>(rows) * ActivationRowBytes(kind, columns)) {
  view_ = {kind, memory_.data(), ActivationRowBytes(kind, columns)};
  QuantizeRows(table, kind, values_.data(), rows, columns, columns, memory_.data(), view_.row_bytes);
}

double TestActivations::Value(std::int64_t row, std::int64_t column) const {
  const std::byte* start = view_.data + static_cast<std::size_t>(row) * view_.row_bytes;
  const std::int64_t block = column / kBlockColumns;
  const int i = static_cast<int>(column % kBlockColumns);
  switch (view_.kind) {
    case ActivationKind::kFloat32:
      return Original(row, column);
    case ActivationKind::kBFloat16:
      return BFloat16BitsToFloat(reinterpret_cast<const std::uint16_t*>(start)[column]);
    case ActivationKind::kInt8:
    case ActivationKind::kInt8Pairs: {
      const auto& b = reinterpret_cast<const ActivationBlock*>(start)[block];
      return static_cast<double>(b.codes[i]) * static_cast<double>(b.scale);
    }
  }
  return 0.0;
}

std::vector<float> RandomFloats(std::size_t count, unsigned seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

}  // namespace skipjack::kernels
