// Reads the metadata of one architecture ("llama.block_count") with ranges, and knows what was left unread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/status.h"
#include "model/gguf_file.h"

namespace skipjack {

// Keys are given without the architecture's prefix. The first failure is kept and everything after it returns
// harmless values, so that an architecture reads all its keys in a row and asks status() once.
class MetadataReader {
 public:
  // `file` must outlive the reader.
  MetadataReader(const GgufFile& file, std::string_view architecture);

  const Status& status() const { return status_; }
  bool Has(std::string_view key) const;

  std::int32_t Int(std::string_view key, std::int32_t least, std::int32_t most);
  std::int32_t IntOr(std::string_view key, std::int32_t least, std::int32_t most, std::int32_t absent);
  // An integer for all layers: one number, or an array of one equal number per layer.
  std::int32_t PerLayerInt(std::string_view key, std::int32_t layers, std::int32_t least, std::int32_t most);
  // Both ends of the range belong to it; numbers that are not finite never do.
  float Float(std::string_view key, double least, double most);
  float FloatOr(std::string_view key, double least, double most, float absent);
  std::string StringOr(std::string_view key, std::string_view absent);

  // For a feature that the architecture's keys can switch on and that we lack: if the key is there, it must
  // have the value that leaves the feature off.
  void MustBeOff(std::string_view key, double off, std::string_view feature);
  // For keys without influence on results.
  void Ignore(std::initializer_list<std::string_view> keys);

  // Refuses a key of the architecture that nothing above has read: it might change results.
  void RefuseTheRest();

  // Keeps the first failure; `message` gets the file's name.
  void Fail(const std::string& message);

 private:
  const GgufValue* Take(std::string_view key);
  std::string Full(std::string_view key) const { return prefix_ + std::string(key); }
  std::int32_t CheckedInt(std::string_view key, std::int64_t value, std::int32_t least, std::int32_t most);

  const GgufFile& file_;
  std::string prefix_;
  Status status_;
  std::unordered_set<std::string> read_;
};

}  // namespace skipjack
