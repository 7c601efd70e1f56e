// Weight matrices as the CPU kernels read them: panels of 16 output rows, columns (K) running through each
// panel.
//
// A panel is a sequence of chunks of 256 columns (the last one may be shorter, a multiple of 32):
//   [scales and minima of the chunk, padded to 64 bytes][codes of the chunk]
// so that one pass over a panel is one linear stream. Inside the codes, 32 columns by 16 rows lie together:
//   kByte        8 x 64 bytes; quad q holds columns 4q..4q+3: byte 4 * row + j is column 4q + j
//   kNibble      4 x 64 bytes; byte 4 * row + j of vector q: column 4q + j in the low nibble, 16 + 4q + j in
//                the high one
//   kNibblePlus1 kNibble, then 64 bytes: bit q of byte 4 * row + j is bit 4 of column 4q + j
//   kNibblePlus2 kNibble, then 2 x 64 bytes: bits 2(q % 4).. of byte 4 * row + j of vector q / 4 are
//   bits 4..5 kTwoBits     2 x 64 bytes: bits 2(q % 4).. of byte 4 * row + j of vector q / 4 are column 4q +
//   j kTwoBitsPlus1  kTwoBits, then 64 bytes: bit q of byte 4 * row + j is bit 2 of column 4q + j
// A weight is scale * code + minimum of its group; without stored minima the minimum is -zero * scale. Codes
// are unsigned, exactly those of the file (shifted by `zero`, or looked up in `table`).
//   kFloat32     per column 16 floats
//   kFloat16     per column 16 halves
//   kBFloat16    per column pair 16 x 2, the pair of a row adjacent (an odd last column is padded with zero)
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace skipjack::kernels {

inline constexpr int kPanelRows = 16;
inline constexpr int kBlockColumns = 32;   // columns of an activation block
inline constexpr int kChunkColumns = 256;  // columns whose scales lie together

// Number types of model files, numbered as GGUF numbers them.
enum class SourceType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
};

// What the arithmetic is done in.
enum class Precision : std::uint8_t {
  kF32,    // float32 weights (dequantised) and activations: the reference
  k16Bit,  // float16 or bfloat16 weights, float32 activations
  kInt8,   // integer codes, integer activations; float sources stay 16-bit (F32: bfloat16)
};

enum class CodeStorage : std::uint8_t {
  kFloat32,
  kFloat16,
  kBFloat16,
  kNibble,
  kNibblePlus1,
  kNibblePlus2,
  kTwoBits,
  kTwoBitsPlus1,
  kByte
};

enum class ScaleForm : std::uint8_t {
  kNone,
  kHalf,      // one float16 per row and group (and one minimum)
  kBFloat16,  // one bfloat16 per row and group: powers of two outside float16's range (MXFP4)
  kTwoLevel,  // per row and 256 columns a float16, times an int8 per group (minima: float16 times uint8)
};

// Nibbles that are indices into a table of code bytes.
enum class CodeTable : std::uint8_t { kNone, kIq4, kMxfp4 };

struct PackedFormat {
  CodeStorage storage = CodeStorage::kFloat32;
  ScaleForm scale = ScaleForm::kNone;
  CodeTable table = CodeTable::kNone;
  bool stored_minimum = false;
  std::uint8_t group = 0;     // columns that share a scale: 32 or 16; 0 for float storage
  std::uint8_t zero = 0;      // the code that means 0 when no minimum is stored
  std::uint8_t max_code = 0;  // largest code (after the table)

  bool is_integer() const { return group != 0; }
  friend bool operator==(const PackedFormat&, const PackedFormat&) = default;
};

// The packed format of a source type; nullopt for a type that cannot be packed.
std::optional<PackedFormat> FormatFor(SourceType type, Precision precision);

// Elements and bytes of one block of the source type (1 element for plain types).
int SourceBlockElements(SourceType type);
int SourceBlockBytes(SourceType type);

// The 16 code bytes of a table (kNone: nullptr).
const std::uint8_t* TableCodes(CodeTable table);

// Bytes of the codes of 32 columns by 16 rows; 0 for float storage.
std::size_t CodeBlockBytes(CodeStorage storage);

// Bytes of `columns` (1..256) columns of a panel: the padded scales in front of the codes, and both together.
std::size_t ChunkScaleBytes(const PackedFormat& format, int columns);
std::size_t ChunkBytes(const PackedFormat& format, int columns);

inline std::int64_t PanelCount(std::int64_t rows) {
  return (rows + kPanelRows - 1) / kPanelRows;
}

// Bytes of one panel (a multiple of 64) and of the whole matrix. `columns` must be a multiple of the source
// type's block for integer formats.
std::size_t PanelBytes(const PackedFormat& format, std::int64_t columns);
std::size_t PackedBytes(const PackedFormat& format, std::int64_t rows, std::int64_t columns);

// A packed matrix in memory somebody else owns.
struct PackedMatrix {
  PackedFormat format;
  std::int64_t rows = 0;     // output features
  std::int64_t columns = 0;  // input features
  std::size_t panel_bytes = 0;
  const std::byte* data = nullptr;  // 64-byte aligned; panel p at p * panel_bytes

  std::int64_t panels() const { return PanelCount(rows); }
  const std::byte* Panel(std::int64_t panel) const {
    return data + static_cast<std::size_t>(panel) * panel_bytes;
  }
};

struct PackSource {
  SourceType type = SourceType::kF32;
  const std::byte* data = nullptr;  // row r at r * row_bytes; any alignment
  std::size_t row_bytes = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// Packs panels [first_panel, first_panel + panel_count) of the source; the first is written to `destination`
// (64-byte aligned), the next one PanelBytes() further. Missing rows of the last panel become zeros. Threads
// may pack disjoint panels at once. Allocates nothing.
void PackPanels(const PackedFormat& format, const PackSource& source, std::int64_t first_panel,
                std::int64_t panel_count, std::byte* destination);

}  // namespace skipjack::kernels
