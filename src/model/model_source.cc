#include "model/model_source.h"

#include <cmath>
#include <utility>
#include <vector>

#include "model/architecture.h"
#include "model/gguf_errors.h"
#include "model/rope.h"

namespace skipjack {
namespace {

Status CheckGeneral(const GgufFile& file) {
  if (const GgufValue* type = file.Find("general.type")) {
    const auto* text = std::get_if<std::string>(type);
    if (text == nullptr || *text != "model") {
      return Status::InvalidArgument(file.path() + ": general.type is " + (text ? Quoted(*text) : "no text") +
                                     ": this file is not a model by itself");
    }
  }
  constexpr std::int64_t kQuantizationVersion = 2;  // of the block formats we decode
  if (file.Find("general.quantization_version") != nullptr) {
    const Result<std::int64_t> version = file.GetInt("general.quantization_version");
    if (!version.ok()) return version.status();
    if (*version > kQuantizationVersion) {
      return Status::Unimplemented(file.path() + ": general.quantization_version is " +
                                   std::to_string(*version) + "; versions up to " +
                                   std::to_string(kQuantizationVersion) + " are supported");
    }
  }
  return {};
}

// A token without a row in the embedding could be asked for and never computed.
Status CheckTokensHaveRows(const GgufFile& file, const ModelConfig& config) {
  const std::vector<std::string>* tokens = file.FindStrings("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->size() <= static_cast<std::size_t>(config.vocabulary_rows)) return {};
  return Status::InvalidArgument(file.path() + ": tokenizer.ggml.tokens lists " +
                                 std::to_string(tokens->size()) + " tokens, but the embedding has " +
                                 std::to_string(config.vocabulary_rows) + " rows");
}

Status CheckRopeFactors(const GgufFile& file, const ModelTensors& tensors) {
  for (const float factor : ReadRopeFactors(tensors.rope_factors)) {
    if (!std::isfinite(factor) || factor <= 0.0f) {
      return Status::InvalidArgument(file.path() + ": tensor " + tensors.rope_factors.name + " holds " +
                                     std::to_string(factor) + ", not a positive number");
    }
  }
  return {};
}

}  // namespace

ModelSource::~ModelSource() = default;

Result<std::shared_ptr<const ModelSource>> ModelSource::Open(const std::string& path) {
  Result<std::unique_ptr<GgufFile>> file = GgufFile::Open(path);
  if (!file.ok()) return file.status();
  return FromFile(*std::move(file));
}

Result<std::shared_ptr<const ModelSource>> ModelSource::FromFile(std::unique_ptr<GgufFile> file) {
  if (Status s = CheckGeneral(*file); !s.ok()) return s;
  const Result<std::string> name = file->GetString("general.architecture");
  if (!name.ok()) return Status::InvalidArgument(name.status().message());
  const Result<const Architecture*> architecture = FindArchitecture(*name);
  if (!architecture.ok()) {
    return Status::Unimplemented(file->path() + ": " + architecture.status().message());
  }
  Result<ModelConfig> config = (*architecture)->read_config(*file);
  if (!config.ok()) return config.status();

  std::shared_ptr<ModelSource> source(new ModelSource);
  source->config_ = *std::move(config);
  source->config_.architecture = *name;
  if (const Result<std::string> title = file->GetString("general.name"); title.ok())
    source->config_.name = *title;
  TensorManifest manifest;
  (*architecture)->list_tensors(source->config_, &source->tensors_, &manifest);
  if (Status s = manifest.Bind(*file); !s.ok()) return s;
  if (source->config_.tied_head) source->tensors_.output = source->tensors_.token_embedding;
  if (Status s = CheckTokensHaveRows(*file, source->config_); !s.ok()) return s;
  if (Status s = CheckRopeFactors(*file, source->tensors_); !s.ok()) return s;
  source->file_ = std::move(file);
  return std::shared_ptr<const ModelSource>(std::move(source));
}

std::int64_t ModelSource::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const TensorView& tensor : file_->tensors()) bytes += static_cast<std::int64_t>(tensor.data.size());
  return bytes;
}

void ModelSource::DropMappedPages() const {
  file_->DropMappedPages();
}

}  // namespace skipjack
