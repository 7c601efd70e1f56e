#include "model/gguf_value_reader.h"

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "model/gguf_parser.h"

namespace skipjack {
namespace {

using std::to_string;

constexpr std::uint32_t kValueTypes = 13;

// Bytes of one value; for texts, the least they take; 0 for arrays.
std::uint64_t LeastBytes(GgufValueType type) {
  constexpr std::array<std::uint8_t, kValueTypes> kSizes{1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

std::string Named(std::string_view key) {
  return "metadata key " + Quoted(key);
}

template <typename Stored, typename Wide>
struct Widening {
  using StoredType = Stored;
  using WideType = Wide;
};

// Calls visit(Widening<how it is stored, how we keep it>) for a number type.
template <typename Visit>
Result<GgufValue> DispatchNumber(GgufValueType type, const Visit& visit) {
  switch (type) {
    case GgufValueType::kUint8:
      return visit(Widening<std::uint8_t, std::uint64_t>{});
    case GgufValueType::kUint16:
      return visit(Widening<std::uint16_t, std::uint64_t>{});
    case GgufValueType::kUint32:
      return visit(Widening<std::uint32_t, std::uint64_t>{});
    case GgufValueType::kUint64:
      return visit(Widening<std::uint64_t, std::uint64_t>{});
    case GgufValueType::kInt8:
      return visit(Widening<std::int8_t, std::int64_t>{});
    case GgufValueType::kInt16:
      return visit(Widening<std::int16_t, std::int64_t>{});
    case GgufValueType::kInt32:
      return visit(Widening<std::int32_t, std::int64_t>{});
    case GgufValueType::kInt64:
      return visit(Widening<std::int64_t, std::int64_t>{});
    case GgufValueType::kFloat32:
      return visit(Widening<float, double>{});
    case GgufValueType::kFloat64:
      return visit(Widening<double, double>{});
    default:
      return Status::Internal("not a number type");
  }
}

}  // namespace

Status GgufValueReader::CutOff(std::string_view key) const {
  return errors_->CutOff(Named(key), reader_->needed());
}

Status GgufValueReader::ReadText(std::uint64_t limit, const std::string& what, std::string_view* out) {
  std::uint64_t length = 0;
  if (!reader_->Read(&length)) return errors_->CutOff(what, reader_->needed());
  if (length > limit) {
    return errors_->Bad(what + " has a text of " + to_string(length) + " bytes, over the limit of " +
                        to_string(limit));
  }
  std::span<const std::byte> raw;
  if (!reader_->Take(length, &raw)) return errors_->CutOff(what, reader_->needed());
  *out = {reinterpret_cast<const char*>(raw.data()), raw.size()};
  return {};
}

Status GgufValueReader::ReadType(std::string_view key, GgufValueType* type) {
  std::uint32_t value = 0;
  if (!reader_->Read(&value)) return CutOff(key);
  if (value >= kValueTypes) return errors_->Bad(Named(key) + " has the unknown type " + to_string(value));
  *type = static_cast<GgufValueType>(value);
  return {};
}

Status GgufValueReader::ReadKey(std::string_view* key, GgufValueType* type) {
  if (Status s = ReadText(kMaxGgufKeyBytes, "a metadata key", key); !s.ok()) return s;
  if (key->empty()) return errors_->Bad("a metadata key is empty");
  return ReadType(*key, type);
}

Result<bool> GgufValueReader::ReadBool(std::string_view key) {
  std::uint8_t value = 0;
  if (!reader_->Read(&value)) return CutOff(key);
  if (value > 1)
    return errors_->Bad(Named(key) + " has the boolean " + to_string(value) + ", which is neither 0 nor 1");
  return value == 1;
}

Result<GgufValueReader::ArrayHeader> GgufValueReader::ReadArrayHeader(std::string_view key) {
  ArrayHeader header;
  if (Status s = ReadType(key, &header.type); !s.ok()) return s;
  if (header.type == GgufValueType::kArray) return errors_->Bad(Named(key) + " is an array of arrays");
  if (!reader_->Read(&header.count)) return CutOff(key);
  if (header.count > kMaxGgufArrayElements - array_elements_) {
    return errors_->Bad(Named(key) + " is an array of " + to_string(header.count) +
                        " values; all arrays of a file together may have " +
                        to_string(kMaxGgufArrayElements));
  }
  array_elements_ += header.count;
  // Refused before anything is allocated for them.
  const std::uint64_t least = header.count * LeastBytes(header.type);
  if (least > reader_->remaining()) return errors_->CutOff(Named(key), reader_->offset() + least);
  return header;
}

Result<GgufValue> GgufValueReader::ReadBools(std::uint64_t count, std::string_view key) {
  std::vector<bool> values;
  values.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const Result<bool> value = ReadBool(key);
    if (!value.ok()) return value.status();
    values.push_back(*value);
  }
  return GgufValue(std::move(values));
}

Result<GgufValue> GgufValueReader::ReadStrings(std::uint64_t count, std::string_view key) {
  const std::string what = Named(key);
  std::vector<std::string> values(static_cast<std::size_t>(count));
  for (std::string& value : values) {
    std::string_view text;
    if (Status s = ReadText(kMaxGgufStringBytes, what, &text); !s.ok()) return s;
    value = text;
  }
  return GgufValue(std::move(values));
}

Result<GgufValue> GgufValueReader::ReadArray(std::string_view key) {
  const Result<ArrayHeader> header = ReadArrayHeader(key);
  if (!header.ok()) return header.status();
  if (header->type == GgufValueType::kBool) return ReadBools(header->count, key);
  if (header->type == GgufValueType::kString) return ReadStrings(header->count, key);
  return DispatchNumber(header->type, [&](auto widening) -> Result<GgufValue> {
    using Stored = typename decltype(widening)::StoredType;
    std::vector<typename decltype(widening)::WideType> values(static_cast<std::size_t>(header->count));
    for (auto& value : values) {
      Stored stored{};
      if (!reader_->Read(&stored)) return CutOff(key);
      value = stored;
    }
    return GgufValue(std::move(values));
  });
}

Result<GgufValue> GgufValueReader::ReadValue(GgufValueType type, std::string_view key) {
  if (type == GgufValueType::kArray) return ReadArray(key);
  if (type == GgufValueType::kBool) {
    const Result<bool> value = ReadBool(key);
    return value.ok() ? Result<GgufValue>(GgufValue(*value)) : Result<GgufValue>(value.status());
  }
  if (type == GgufValueType::kString) {
    std::string_view text;
    if (Status s = ReadText(kMaxGgufStringBytes, Named(key), &text); !s.ok()) return s;
    return GgufValue(std::string(text));
  }
  return DispatchNumber(type, [&](auto widening) -> Result<GgufValue> {
    typename decltype(widening)::StoredType stored{};
    if (!reader_->Read(&stored)) return CutOff(key);
    return GgufValue(static_cast<typename decltype(widening)::WideType>(stored));
  });
}

Status GgufValueReader::SkipValue(GgufValueType type, std::string_view key) {
  std::uint64_t count = 1;
  if (type == GgufValueType::kArray) {
    const Result<ArrayHeader> header = ReadArrayHeader(key);
    if (!header.ok()) return header.status();
    type = header->type;
    count = header->count;
  }
  if (type == GgufValueType::kString) {
    const std::string what = Named(key);
    std::string_view text;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (Status s = ReadText(kMaxGgufStringBytes, what, &text); !s.ok()) return s;
    }
    return {};
  }
  std::span<const std::byte> raw;
  return reader_->Take(count * LeastBytes(type), &raw) ? Status() : CutOff(key);
}

}  // namespace skipjack
