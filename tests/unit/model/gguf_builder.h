// Writes GGUF files byte by byte, valid ones and any kind of broken one. Independent of the reader under
// test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace skipjack::gguf {

// GGUF's numbers for value types, given again here on purpose.
enum : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kText = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

std::string Raw(const void* data, std::size_t size);

template <typename T>
std::string Bytes(T value) {
  return Raw(&value, sizeof value);
}

// A length-prefixed text.
std::string Text(const std::string& text);

struct BuilderTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint32_t type = 0;  // F32
  std::string data;
  std::int64_t offset = -1;  // where the table says the data is; -1: where it is
};

class GgufBuilder {
 public:
  std::uint32_t version = 3;
  std::uint64_t alignment = 32;  // of the layout; the key general.alignment is the caller's to set

  // Replaces the key where it is there already.
  GgufBuilder& Set(const std::string& key, std::uint32_t type, const std::string& value_bytes);
  GgufBuilder& U32(const std::string& key, std::uint32_t value) { return Set(key, kU32, Bytes(value)); }
  GgufBuilder& I32(const std::string& key, std::int32_t value) { return Set(key, kI32, Bytes(value)); }
  GgufBuilder& U16(const std::string& key, std::uint16_t value) { return Set(key, kU16, Bytes(value)); }
  GgufBuilder& F32(const std::string& key, float value) { return Set(key, kF32, Bytes(value)); }
  GgufBuilder& Flag(const std::string& key, bool value) {
    return Set(key, kBool, Bytes<std::uint8_t>(value));
  }
  GgufBuilder& String(const std::string& key, const std::string& value) {
    return Set(key, kText, Text(value));
  }
  GgufBuilder& Strings(const std::string& key, const std::vector<std::string>& values);
  template <typename T>
  GgufBuilder& Array(const std::string& key, std::uint32_t type, const std::vector<T>& values) {
    std::string bytes = Bytes(type) + Bytes<std::uint64_t>(values.size());
    for (const T& value : values) bytes += Bytes(value);
    return Set(key, kArray, bytes);
  }
  GgufBuilder& Remove(const std::string& key);

  // F32 tensors filled with a pattern that depends on the name.
  GgufBuilder& Tensor(const std::string& name, const std::vector<std::uint64_t>& shape);
  GgufBuilder& Add(BuilderTensor tensor);
  GgufBuilder& RemoveTensor(const std::string& name);
  BuilderTensor* FindTensor(const std::string& name);

  std::vector<std::pair<std::string, std::string>>& keys() { return keys_; }  // key, type and value bytes
  std::vector<BuilderTensor>& tensors() { return tensors_; }

  std::string Header() const;  // up to and with the tensor table
  std::string Build() const;

 private:
  std::vector<std::pair<std::string, std::string>> keys_;
  std::vector<BuilderTensor> tensors_;
};

// A valid llama of 2 layers: hidden 16, 4 heads on 2 KV heads, feed-forward 24, 10 tokens, untied.
GgufBuilder TinyLlama();

// An exact-size heap copy, so that AddressSanitizer sees every byte read beyond the end.
std::vector<std::byte> HeapBytes(const std::string& text);

}  // namespace skipjack::gguf
