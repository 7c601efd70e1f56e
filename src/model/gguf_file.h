// GGUF v2/v3 over a memory mapping: metadata and tensor table, every length and offset checked against the
// file. Immutable after Open(), so any thread may read it. A file that is cut short while it is mapped kills
// the process (SIGBUS): replace model files by renaming, never in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "model/gguf_value.h"
#include "model/tensor_view.h"

namespace skipjack {

class MappedFile;
struct GgufPart;

class GgufFile {
 public:
  // `path` as in ModelSource::Open. NotFound: no such file, or a part of the set is missing; DataLoss: a file
  // ends before what its own tables promise; InvalidArgument: not a GGUF that we can trust.
  static Result<std::unique_ptr<GgufFile>> Open(const std::string& path);
  // Parses bytes that the caller keeps alive; for tests and fuzzing. No splits.
  static Result<std::unique_ptr<GgufFile>> Parse(std::span<const std::byte> bytes);
  ~GgufFile();

  // The path of the first part.
  const std::string& path() const { return paths_.front(); }
  // All parts in the order of the set; one for a file that is not split.
  const std::vector<std::string>& paths() const { return paths_; }
  std::uint32_t version() const { return version_; }

  // In file order.
  const std::vector<std::string>& keys() const { return metadata_.keys; }
  const GgufValue* Find(std::string_view key) const;

  // Typed access: NotFound when absent, InvalidArgument when of another type or out of range. Errors name the
  // file and the key. GetFloat also accepts integers.
  Result<std::int64_t> GetInt(std::string_view key) const;
  Result<double> GetFloat(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string> GetString(std::string_view key) const;
  // nullptr when absent or no array of strings.
  const std::vector<std::string>* FindStrings(std::string_view key) const;

  const std::vector<TensorView>& tensors() const { return tensors_; }
  const TensorView* FindTensor(std::string_view name) const;

  // See ModelSource.
  void Prefetch(std::span<const std::byte> part) const;
  void DropMappedPages() const;

 private:
  GgufFile();
  Status AddPart(GgufPart part);

  std::vector<std::string> paths_;
  std::uint32_t version_ = 0;
  GgufMetadata metadata_;
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string, std::size_t> tensor_index_;
  std::vector<std::unique_ptr<MappedFile>> mappings_;
};

}  // namespace skipjack
