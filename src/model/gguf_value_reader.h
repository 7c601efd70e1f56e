// Reads GGUF metadata values, one after the other, within limits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/byte_reader.h"
#include "model/gguf_errors.h"
#include "model/gguf_value.h"

namespace skipjack {

enum class GgufValueType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

class GgufValueReader {
 public:
  // Both must outlive the reader.
  GgufValueReader(ByteReader* reader, const GgufErrors* errors) : reader_(reader), errors_(errors) {}

  // A length-prefixed text of at most `limit` bytes, as a view into the file. `what` is for messages.
  Status ReadText(std::uint64_t limit, const std::string& what, std::string_view* out);

  // A key and the type of its value.
  Status ReadKey(std::string_view* key, GgufValueType* type);
  Result<GgufValue> ReadValue(GgufValueType type, std::string_view key);
  // Checks as ReadValue does, but builds nothing.
  Status SkipValue(GgufValueType type, std::string_view key);

 private:
  struct ArrayHeader {
    GgufValueType type{};
    std::uint64_t count = 0;
  };

  Status CutOff(std::string_view key) const;
  Status ReadType(std::string_view key, GgufValueType* type);
  Result<bool> ReadBool(std::string_view key);
  Result<ArrayHeader> ReadArrayHeader(std::string_view key);
  Result<GgufValue> ReadArray(std::string_view key);
  Result<GgufValue> ReadBools(std::uint64_t count, std::string_view key);
  Result<GgufValue> ReadStrings(std::uint64_t count, std::string_view key);

  ByteReader* reader_;
  const GgufErrors* errors_;
  std::uint64_t array_elements_ = 0;
};

}  // namespace skipjack
