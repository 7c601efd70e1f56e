#include "kernels/cpu/packed_matrix.h"

namespace skipjack::kernels {
namespace {

constexpr std::size_t kAlignment = 64;

constexpr std::size_t RoundUp(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}

// value + 128, so that codes are unsigned.
constexpr std::uint8_t kIq4Codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                        129, 141, 153, 166, 181, 197, 217, 241};
// Twice the e2m1 value + 12.
constexpr std::uint8_t kMxfp4Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

constexpr PackedFormat Integer(CodeStorage storage, ScaleForm scale, int group, int zero, int max_code,
                               bool stored_minimum) {
  PackedFormat format;
  format.storage = storage;
  format.scale = scale;
  format.group = static_cast<std::uint8_t>(group);
  format.zero = static_cast<std::uint8_t>(zero);
  format.max_code = static_cast<std::uint8_t>(max_code);
  format.stored_minimum = stored_minimum;
  return format;
}

constexpr PackedFormat Table(CodeTable table, ScaleForm scale, int zero, int max_code) {
  PackedFormat format = Integer(CodeStorage::kNibble, scale, 32, zero, max_code, false);
  format.table = table;
  return format;
}

constexpr PackedFormat Float(CodeStorage storage) {
  PackedFormat format;
  format.storage = storage;
  return format;
}

std::optional<PackedFormat> IntegerFormatFor(SourceType type) {
  using enum CodeStorage;
  switch (type) {
    case SourceType::kQ4_0:
      return Integer(kNibble, ScaleForm::kHalf, 32, 8, 15, false);
    case SourceType::kQ4_1:
      return Integer(kNibble, ScaleForm::kHalf, 32, 0, 15, true);
    case SourceType::kQ5_0:
      return Integer(kNibblePlus1, ScaleForm::kHalf, 32, 16, 31, false);
    case SourceType::kQ5_1:
      return Integer(kNibblePlus1, ScaleForm::kHalf, 32, 0, 31, true);
    case SourceType::kQ8_0:
      return Integer(kByte, ScaleForm::kHalf, 32, 128, 255, false);
    case SourceType::kQ2_K:
      return Integer(kTwoBits, ScaleForm::kTwoLevel, 16, 0, 3, true);
    case SourceType::kQ3_K:
      return Integer(kTwoBitsPlus1, ScaleForm::kTwoLevel, 16, 4, 7, false);
    case SourceType::kQ4_K:
      return Integer(kNibble, ScaleForm::kTwoLevel, 32, 0, 15, true);
    case SourceType::kQ5_K:
      return Integer(kNibblePlus1, ScaleForm::kTwoLevel, 32, 0, 31, true);
    case SourceType::kQ6_K:
      return Integer(kNibblePlus2, ScaleForm::kTwoLevel, 16, 32, 63, false);
    case SourceType::kTQ1_0:
    case SourceType::kTQ2_0:
      // One scale per 256 columns: the second level, always 1, costs less than eight copies of the first.
      return Integer(kTwoBits, ScaleForm::kTwoLevel, 32, 1, 3, false);
    case SourceType::kIQ4_NL:
      return Table(CodeTable::kIq4, ScaleForm::kHalf, 128, 241);
    case SourceType::kIQ4_XS:
      return Table(CodeTable::kIq4, ScaleForm::kTwoLevel, 128, 241);
    case SourceType::kMXFP4:
      return Table(CodeTable::kMxfp4, ScaleForm::kBFloat16, 12, 24);
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBF16:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<PackedFormat> FormatFor(SourceType type, Precision precision) {
  if (SourceBlockElements(type) == 0) return std::nullopt;
  if (precision == Precision::kF32) return Float(CodeStorage::kFloat32);
  if (precision == Precision::kInt8) {
    if (auto format = IntegerFormatFor(type)) return format;
  }
  // float16 holds the products scale * code more precisely than bfloat16; MXFP4's exponents do not fit it.
  const bool wide_range = type == SourceType::kF32 || type == SourceType::kBF16 || type == SourceType::kMXFP4;
  return Float(wide_range ? CodeStorage::kBFloat16 : CodeStorage::kFloat16);
}

int SourceBlockElements(SourceType type) {
  switch (type) {
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBF16:
      return 1;
    case SourceType::kQ4_0:
    case SourceType::kQ4_1:
    case SourceType::kQ5_0:
    case SourceType::kQ5_1:
    case SourceType::kQ8_0:
    case SourceType::kIQ4_NL:
    case SourceType::kMXFP4:
      return 32;
    case SourceType::kQ2_K:
    case SourceType::kQ3_K:
    case SourceType::kQ4_K:
    case SourceType::kQ5_K:
    case SourceType::kQ6_K:
    case SourceType::kIQ4_XS:
    case SourceType::kTQ1_0:
    case SourceType::kTQ2_0:
      return 256;
  }
  return 0;
}

int SourceBlockBytes(SourceType type) {
  switch (type) {
    case SourceType::kF32:
      return 4;
    case SourceType::kF16:
    case SourceType::kBF16:
      return 2;
    case SourceType::kQ4_0:
    case SourceType::kIQ4_NL:
      return 18;
    case SourceType::kQ4_1:
      return 20;
    case SourceType::kQ5_0:
      return 22;
    case SourceType::kQ5_1:
      return 24;
    case SourceType::kQ8_0:
      return 34;
    case SourceType::kMXFP4:
      return 17;
    case SourceType::kQ2_K:
      return 84;
    case SourceType::kQ3_K:
      return 110;
    case SourceType::kQ4_K:
      return 144;
    case SourceType::kQ5_K:
      return 176;
    case SourceType::kQ6_K:
      return 210;
    case SourceType::kIQ4_XS:
      return 136;
    case SourceType::kTQ1_0:
      return 54;
    case SourceType::kTQ2_0:
      return 66;
  }
  return 0;
}

const std::uint8_t* TableCodes(CodeTable table) {
  switch (table) {
    case CodeTable::kIq4:
      return kIq4Codes;
    case CodeTable::kMxfp4:
      return kMxfp4Codes;
    case CodeTable::kNone:
      break;
  }
  return nullptr;
}

std::size_t CodeBlockBytes(CodeStorage storage) {
  switch (storage) {
    case CodeStorage::kTwoBits:
      return 128;
    case CodeStorage::kTwoBitsPlus1:
      return 192;
    case CodeStorage::kNibble:
      return 256;
    case CodeStorage::kNibblePlus1:
      return 320;
    case CodeStorage::kNibblePlus2:
      return 384;
    case CodeStorage::kByte:
      return 512;
    case CodeStorage::kFloat32:
    case CodeStorage::kFloat16:
    case CodeStorage::kBFloat16:
      break;
  }
  return 0;
}

std::size_t ChunkScaleBytes(const PackedFormat& format, int columns) {
  if (!format.is_integer()) return 0;
  const std::size_t groups = static_cast<std::size_t>(columns / format.group);
  const std::size_t values = format.stored_minimum ? 2 : 1;
  if (format.scale == ScaleForm::kTwoLevel) {
    return RoundUp(values * kPanelRows * (sizeof(std::uint16_t) + groups), kAlignment);
  }
  return RoundUp(values * kPanelRows * groups * sizeof(std::uint16_t), kAlignment);
}

std::size_t ChunkBytes(const PackedFormat& format, int columns) {
  const std::size_t weights = static_cast<std::size_t>(columns) * kPanelRows;
  switch (format.storage) {
    case CodeStorage::kFloat32:
      return weights * sizeof(float);
    case CodeStorage::kFloat16:
      return weights * sizeof(std::uint16_t);
    case CodeStorage::kBFloat16:
      return RoundUp(static_cast<std::size_t>(columns), 2) * kPanelRows * sizeof(std::uint16_t);
    default:
      return ChunkScaleBytes(format, columns) +
             static_cast<std::size_t>(columns / kBlockColumns) * CodeBlockBytes(format.storage);
  }
}

std::size_t PanelBytes(const PackedFormat& format, std::int64_t columns) {
  const std::size_t full = static_cast<std::size_t>(columns / kChunkColumns);
  const int rest = static_cast<int>(columns % kChunkColumns);
  const std::size_t bytes =
      full * ChunkBytes(format, kChunkColumns) + (rest > 0 ? ChunkBytes(format, rest) : 0);
  return RoundUp(bytes, kAlignment);
}

std::size_t PackedBytes(const PackedFormat& format, std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(PanelCount(rows)) * PanelBytes(format, columns);
}

}  // namespace skipjack::kernels
