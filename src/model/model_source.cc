#include "model/model_source.h"

#include <utility>

#include "model/architecture.h"

namespace skipjack {

ModelSource::~ModelSource() = default;

Result<std::shared_ptr<const ModelSource>> ModelSource::Open(const std::string& path) {
  Result<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  return FromFile(*std::move(file));
}

Result<std::shared_ptr<const ModelSource>> ModelSource::FromFile(std::unique_ptr<GgufFile> file) {
  std::shared_ptr<ModelSource> source(new ModelSource);
  if (Status s = DescribeModel(*file, &source->config_, &source->tensors_); !s.ok()) return s;
  source->file_ = std::move(file);
  return std::shared_ptr<const ModelSource>(std::move(source));
}

std::int64_t ModelSource::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const TensorView& tensor : file_->tensors()) bytes += static_cast<std::int64_t>(tensor.data.size());
  return bytes;
}

void ModelSource::Prefetch(std::span<const std::byte> part) const {
  file_->Prefetch(part);
}

void ModelSource::DropMappedPages() const {
  file_->DropMappedPages();
}

}  // namespace skipjack
