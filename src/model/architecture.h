// A model family we can run. A new one is a file like architecture_llama.cc and a line in architecture.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/gguf_file.h"
#include "model/model_config.h"
#include "model/tensor_manifest.h"

namespace skipjack {

struct Architecture {
  std::string_view name;  // as general.architecture has it
  // Reads the family's own metadata, every number checked against its range and the others, and refuses keys
  // it does not know. `architecture` and `name` of the config are filled in by the caller.
  Result<ModelConfig> (*read_config)(const GgufFile& file);
  // Lists the tensors a model of this configuration has, with the places in `tensors` (whose layers it
  // creates) where they go.
  void (*list_tensors)(const ModelConfig& config, ModelTensors* tensors, TensorManifest* manifest);
};

std::span<const Architecture> KnownArchitectures();

// Unimplemented, naming the architecture and the known ones.
Result<const Architecture*> FindArchitecture(std::string_view name);

// Everything that makes the file a model we can run, checked (see ModelSource::Open). The tensors point into
// `file`.
Status DescribeModel(const GgufFile& file, ModelConfig* config, ModelTensors* tensors);

// The families.
Result<ModelConfig> ReadLlamaConfig(const GgufFile& file);
void ListLlamaTensors(const ModelConfig& config, ModelTensors* tensors, TensorManifest* manifest);

}  // namespace skipjack
