#include "model/architecture.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "model/gguf_errors.h"
#include "model/rope.h"

namespace skipjack {
namespace {

constexpr std::array kArchitectures{
    Architecture{"llama", ReadLlamaConfig, ListLlamaTensors},
};

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

std::span<const Architecture> KnownArchitectures() {
  return kArchitectures;
}

Result<const Architecture*> FindArchitecture(std::string_view name) {
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
    if (!known.empty()) known += ", ";
    known += architecture.name;
  }
  return Status::Unimplemented("the architecture " + Quoted(name) + " is not supported (supported: " + known +
                               ")");
}

Status DescribeModel(const GgufFile& file, ModelConfig* config, ModelTensors* tensors) {
  if (Status s = CheckGeneral(file); !s.ok()) return s;
  const Result<std::string> name = file.GetString("general.architecture");
  if (!name.ok()) return Status::InvalidArgument(name.status().message());
  const Result<const Architecture*> architecture = FindArchitecture(*name);
  if (!architecture.ok()) return Status::Unimplemented(file.path() + ": " + architecture.status().message());
  const Result<ModelConfig> read = (*architecture)->read_config(file);
  if (!read.ok()) return read.status();

  *config = *read;
  config->architecture = *name;
  if (const Result<std::string> title = file.GetString("general.name"); title.ok()) config->name = *title;
  TensorManifest manifest;
  (*architecture)->list_tensors(*config, tensors, &manifest);
  if (Status s = manifest.Bind(file); !s.ok()) return s;
  if (config->tied_head) tensors->output = tensors->token_embedding;
  if (Status s = CheckTokensHaveRows(file, *config); !s.ok()) return s;
  return CheckRopeFactors(file, *tensors);
}

}  // namespace skipjack
