// PackPanels: from rows of source blocks to panels.
#include <cstring>

#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/quant_blocks.h"

namespace skipjack::kernels {
namespace {

void Write16(std::byte* destination, std::uint16_t value) {
  std::memcpy(destination, &value, sizeof(value));
}

void OrByte(std::byte* destination, int bits) {
  *destination |= static_cast<std::byte>(bits);
}

// Two bits of each code, and a third in a plane of its own where there is one.
void ScatterTwoBits(CodeStorage storage, const std::uint8_t* codes, int row, std::byte* destination) {
  for (int q = 0; q < 8; ++q) {
    for (int j = 0; j < 4; ++j) {
      const int code = codes[4 * q + j];
      OrByte(destination + 64 * (q / 4) + 4 * row + j, (code & 3) << (2 * (q % 4)));
      if (storage == CodeStorage::kTwoBitsPlus1) OrByte(destination + 128 + 4 * row + j, (code >> 2) << q);
    }
  }
}

// Writes codes of 32 columns of one row into the 32-column code block at `destination` (zeroed before).
void ScatterCodes(CodeStorage storage, const std::uint8_t* codes, int row, std::byte* destination) {
  if (storage == CodeStorage::kTwoBits || storage == CodeStorage::kTwoBitsPlus1)
    return ScatterTwoBits(storage, codes, row, destination);
  if (storage == CodeStorage::kByte) {
    for (int q = 0; q < 8; ++q) std::memcpy(destination + 64 * q + 4 * row, codes + 4 * q, 4);
    return;
  }
  for (int q = 0; q < 4; ++q) {
    for (int j = 0; j < 4; ++j) {
      const int low = codes[4 * q + j] & 15;
      const int high = codes[16 + 4 * q + j] & 15;
      destination[64 * q + 4 * row + j] = static_cast<std::byte>(low | (high << 4));
    }
  }
  if (storage == CodeStorage::kNibble) return;
  const bool one_bit = storage == CodeStorage::kNibblePlus1;
  std::byte* planes = destination + 256 + 4 * row;
  for (int q = 0; q < 8; ++q) {
    for (int j = 0; j < 4; ++j) {
      const int bits = codes[4 * q + j] >> 4;
      OrByte(one_bit ? planes + j : planes + 64 * (q / 4) + j, one_bit ? bits << q : bits << (2 * (q % 4)));
    }
  }
}

// Writes the scales of one row and source block; `first_group` counts within the chunk of `groups` groups.
void ScatterScales(const PackedFormat& format, const DecodedBlock& block, int block_groups, int first_group,
                   int groups, int row, std::byte* scales) {
  if (format.scale == ScaleForm::kTwoLevel) {
    std::byte* next = scales + 2 * kPanelRows;
    Write16(scales + 2 * row, block.super_scale);
    if (format.stored_minimum) {
      Write16(next + 2 * row, block.super_minimum);
      next += 2 * kPanelRows;
    }
    for (int g = 0; g < groups; ++g) {
      next[g * kPanelRows + row] = static_cast<std::byte>(block.group_scale[g]);
      if (format.stored_minimum) {
        next[(groups + g) * kPanelRows + row] = static_cast<std::byte>(block.group_minimum[g]);
      }
    }
    return;
  }
  for (int g = 0; g < block_groups; ++g) {
    std::byte* slot = scales + 2 * ((first_group + g) * kPanelRows + row);
    Write16(slot, block.scale[g]);
    if (format.stored_minimum) Write16(slot + 2 * groups * kPanelRows, block.minimum[g]);
  }
}

void PackIntegerChunk(const PackedFormat& format, SourceType type, const std::byte* source, int columns,
                      int row, std::byte* chunk) {
  const int elements = SourceBlockElements(type);
  const int groups = columns / format.group;
  const int block_groups = elements / format.group;
  const std::size_t code_bytes = CodeBlockBytes(format.storage);
  std::byte* codes = chunk + ChunkScaleBytes(format, columns);
  DecodedBlock block;
  for (int first = 0; first < columns; first += elements, source += SourceBlockBytes(type)) {
    DecodeBlock(type, source, &block);
    ScatterScales(format, block, block_groups, first / format.group, groups, row, chunk);
    const auto& written = format.table == CodeTable::kNone ? block.codes : block.nibbles;
    for (int i = 0; i < elements; i += kBlockColumns) {
      const std::size_t index = static_cast<std::size_t>((first + i) / kBlockColumns);
      ScatterCodes(format.storage, written.data() + i, row, codes + index * code_bytes);
    }
  }
}

// Decodes `columns` numbers, a multiple of the type's block.
void Dequantize(SourceType type, const std::byte* blocks, int columns, float* out) {
  const int elements = SourceBlockElements(type);
  if (type == SourceType::kF32) {
    std::memcpy(out, blocks, static_cast<std::size_t>(columns) * sizeof(float));
    return;
  }
  for (int i = 0; i < columns; i += elements, blocks += SourceBlockBytes(type))
    DequantizeBlock(type, blocks, out + i);
}

// Writes columns [first, first + columns) of one row; `first` is even.
void ScatterFloats(CodeStorage storage, const float* values, std::int64_t first, int columns, int row,
                   std::byte* panel) {
  const std::size_t width = storage == CodeStorage::kFloat32 ? sizeof(float) : sizeof(std::uint16_t);
  std::byte* out = panel + static_cast<std::size_t>(first) * kPanelRows * width;
  switch (storage) {
    case CodeStorage::kFloat32:
      for (int k = 0; k < columns; ++k)
        std::memcpy(out + 4 * (k * kPanelRows + row), values + k, sizeof(float));
      return;
    case CodeStorage::kFloat16:
      for (int k = 0; k < columns; ++k) Write16(out + 2 * (k * kPanelRows + row), FloatToHalfBits(values[k]));
      return;
    default:
      for (int k = 0; k < columns; ++k) {
        Write16(out + 2 * (k / 2 * 2 * kPanelRows + 2 * row + k % 2), FloatToBFloat16Bits(values[k]));
      }
  }
}

void PackFloatRow(const PackedFormat& format, const PackSource& source, const std::byte* blocks, int row,
                  std::byte* panel) {
  float values[kChunkColumns];
  for (std::int64_t first = 0; first < source.columns; first += kChunkColumns) {
    const std::int64_t left = source.columns - first;
    const int columns = left < kChunkColumns ? static_cast<int>(left) : kChunkColumns;
    Dequantize(source.type, blocks, columns, values);
    ScatterFloats(format.storage, values, first, columns, row, panel);
    blocks += columns / SourceBlockElements(source.type) * SourceBlockBytes(source.type);
  }
}

void PackIntegerRow(const PackedFormat& format, const PackSource& source, const std::byte* blocks, int row,
                    std::byte* panel) {
  for (std::int64_t first = 0; first < source.columns; first += kChunkColumns) {
    const std::int64_t left = source.columns - first;
    const int columns = left < kChunkColumns ? static_cast<int>(left) : kChunkColumns;
    PackIntegerChunk(format, source.type, blocks, columns, row, panel);
    blocks += columns / SourceBlockElements(source.type) * SourceBlockBytes(source.type);
    panel += ChunkBytes(format, columns);
  }
}

}  // namespace

void PackPanels(const PackedFormat& format, const PackSource& source, std::int64_t first_panel,
                std::int64_t panel_count, std::byte* destination) {
  const std::size_t panel_bytes = PanelBytes(format, source.columns);
  for (std::int64_t p = first_panel; p < first_panel + panel_count; ++p, destination += panel_bytes) {
    std::memset(destination, 0, panel_bytes);
    for (int row = 0; row < kPanelRows; ++row) {
      const std::int64_t source_row = p * kPanelRows + row;
      if (source_row >= source.rows) break;
      const std::byte* blocks = source.data + static_cast<std::size_t>(source_row) * source.row_bytes;
      if (format.is_integer()) {
        PackIntegerRow(format, source, blocks, row, destination);
      } else {
        PackFloatRow(format, source, blocks, row, destination);
      }
    }
  }
}

}  // namespace skipjack::kernels
