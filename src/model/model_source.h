// A model as it lies on disk, checked: its configuration and its named tensors. Immutable after Open(), so
// any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "model/gguf_file.h"
#include "model/model_config.h"
#include "model/tensor_view.h"

namespace skipjack {

class ModelSource {
 public:
  // Reads and checks everything: the file's structure, the configuration, and that every tensor the
  // architecture needs is there with the right name, shape and a type we decode, and that none is left over.
  // Errors name the file, the tensor or key, and both numbers where there are two. `path`: a .gguf file, any
  // part of a split set, or a folder that holds exactly one set.
  static Result<std::shared_ptr<const ModelSource>> Open(const std::string& path);

  // The same checks over a file that is already open.
  static Result<std::shared_ptr<const ModelSource>> FromFile(std::unique_ptr<GgufFile> file);

  ~ModelSource();
  ModelSource(const ModelSource&) = delete;
  ModelSource& operator=(const ModelSource&) = delete;

  const ModelConfig& config() const { return config_; }
  const ModelTensors& tensors() const { return tensors_; }
  const GgufFile& file() const { return *file_; }

  // Sum of all tensor bytes.
  std::int64_t weight_bytes() const;

  // Asks the kernel to begin reading a tensor's bytes (TensorView::data, or a part of them) from the disk,
  // without waiting for that. Whoever goes through a model that may not be cached asks for what comes next
  // before it works on what is there: page faults alone read little by little.
  void Prefetch(std::span<const std::byte> part) const;

  // Tells the kernel that mapped pages are no longer needed (after repacking), so that they leave our
  // resident set; reading `tensors()` afterwards still works and faults them in again.
  void DropMappedPages() const;

 private:
  ModelSource() = default;

  std::unique_ptr<GgufFile> file_;
  ModelConfig config_;
  ModelTensors tensors_;
};

}  // namespace skipjack
