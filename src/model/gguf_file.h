// GGUF v2/v3 over a memory mapping: metadata and tensor table, every length and offset checked against the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/status.h"
#include "model/model_source.h"

namespace skipjack {

// Integers widen to int64/uint64 and floats to double; arrays keep one element type.
using GgufValue = std::variant<std::int64_t, std::uint64_t, double, bool, std::string, std::vector<std::int64_t>,
                               std::vector<std::uint64_t>, std::vector<double>, std::vector<bool>,
                               std::vector<std::string>>;

class GgufFile {
 public:
  // `path` as in ModelSource::Open.
  static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);
  // Parses bytes that the caller keeps alive; for tests and fuzzing. No splits.
  static Result<std::unique_ptr<GgufFile>> Parse(std::span<const std::byte> bytes);
  ~GgufFile();

  const std::string& path() const { return path_; }
  std::uint32_t version() const { return version_; }

  // In file order.
  const std::vector<std::string>& keys() const { return keys_; }
  const GgufValue* Find(std::string_view key) const;

  // Typed access: NotFound when absent, InvalidArgument when of another type or out of range.
  Result<std::int64_t> GetInt(std::string_view key) const;
  Result<double> GetFloat(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string> GetString(std::string_view key) const;
  const std::vector<std::string>* FindStrings(std::string_view key) const;

  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* FindTensor(std::string_view name) const;

  void DropMappedPages() const;

 private:
  class Mapping;

  GgufFile();

  std::string path_;
  std::uint32_t version_ = 0;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, GgufValue> values_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> tensor_index_;
  std::vector<std::unique_ptr<Mapping>> mappings_;
};

}  // namespace skipjack
